from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.artifacts.quantization.worker.packing import pack, pack_columns
from tools.artifacts.errors import ArtifactError
from tools.artifacts.quantization.worker.awq_format import QuantizedCheckpoint, dequantize, unpack_columns

LAYER = "model.layers.0.mlp.up_proj"


def test_columns_lie_in_the_order_of_the_format() -> None:
    # By hand: the lowest four bits hold column 0, then 2, 4, 6, 1, 3, 5, 7.
    word = sum(column << (4 * place) for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))
    assert unpack_columns(torch.tensor([[word]], dtype=torch.int32)).tolist() == [list(range(8))]


def test_the_sign_bit_is_a_bit_like_the_others() -> None:
    values = torch.full((2, 16), 15)
    assert unpack_columns(pack_columns(values)).tolist() == values.tolist()


def test_a_packed_weight_comes_back_within_half_a_step() -> None:
    torch.manual_seed(0)
    weight = torch.randn(16, 128)
    packed = pack(weight, 64)
    back = dequantize(packed["qweight"], packed["qzeros"], packed["scales"])
    steps = packed["scales"].float().T.repeat_interleave(64, dim=1)
    assert back.shape == weight.shape
    # The zero is rounded as well, so a group's ends may be a whole step off.
    assert bool(((back - weight).abs() <= 1.01 * steps).all())
    assert float((back - weight).abs().mean()) < 0.3 * float(steps.mean())


def test_a_checkpoint_names_its_packed_layers_and_gives_every_weight(tmp_path: Path) -> None:
    packed = {f"{LAYER}.{part}": tensor for part, tensor in pack(torch.randn(16, 64), 64).items()}
    save_file(packed, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"model.norm.weight": torch.ones(4)}, tmp_path / "model-00002-of-00002.safetensors")
    checkpoint = QuantizedCheckpoint(tmp_path)
    assert checkpoint.quantized == (LAYER,)
    assert {name: tuple(weight.shape) for name, weight in checkpoint.weights()} == {
        f"{LAYER}.weight": (16, 64),
        "model.norm.weight": (4,),
    }


def test_a_checkpoint_without_packed_layers_or_with_half_of_one_is_refused(tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(4)}, tmp_path / "a.safetensors")
    with pytest.raises(ArtifactError, match="holds no packed layer: quantise anew"):
        QuantizedCheckpoint(tmp_path)
    save_file({f"{LAYER}.qweight": torch.zeros(1, dtype=torch.int32)}, tmp_path / "b.safetensors")
    with pytest.raises(ArtifactError, match=f'holds no tensor "{LAYER}.qzeros": quantise anew'):
        list(QuantizedCheckpoint(tmp_path).weights())
