from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.artifacts.quantization.worker.packing import pack
from tools.artifacts.errors import ArtifactError
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint

LAYER = "model.layers.0.mlp.up_proj"


def test_a_checkpoint_names_its_packed_layers_and_gives_every_weight(tmp_path: Path) -> None:
    packed = {f"{LAYER}.{part}": tensor for part, tensor in pack(torch.randn(16, 64), 64).items()}
    save_file(packed, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"model.norm.weight": torch.ones(4)}, tmp_path / "model-00002-of-00002.safetensors")
    checkpoint = PackedCheckpoint(tmp_path)
    assert checkpoint.quantized == (LAYER,)
    assert {name: tuple(weight.shape) for name, weight in checkpoint.weights()} == {
        f"{LAYER}.weight": (16, 64),
        "model.norm.weight": (4,),
    }


def test_a_checkpoint_without_packed_layers_or_with_half_of_one_is_refused(tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(4)}, tmp_path / "a.safetensors")
    with pytest.raises(ArtifactError, match="holds no packed layer: quantise anew"):
        PackedCheckpoint(tmp_path)
    save_file({f"{LAYER}.qweight": torch.zeros(1, dtype=torch.int32)}, tmp_path / "b.safetensors")
    with pytest.raises(ArtifactError, match=f'holds no tensor "{LAYER}.qzeros": quantise anew'):
        list(PackedCheckpoint(tmp_path).weights())
