"""Against compressed-tensors itself, which the engine environment holds for vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tools.artifacts.quantization.worker.compressed_format import dequantize
from tools.artifacts.quantization.worker.packed_checkpoint import PackedCheckpoint

# compressed-tensors takes seconds to import: it is, where it is used.
pytestmark = pytest.mark.slow

LAYER = "model.layers.0.mlp.up_proj"


def compressed() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A packed layer, and its weight as compressed-tensors reads it."""
    from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    scheme = QuantizationScheme(
        targets=["Linear"],
        weights=QuantizationArgs(num_bits=4, type="int", symmetric=False, strategy="group", group_size=64),
    )
    torch.manual_seed(0)
    state = {
        "weight": torch.randn(16, 128),
        "weight_scale": torch.rand(16, 2) * 0.3 + 0.1,
        "weight_zero_point": torch.randint(-8, 8, (16, 2), dtype=torch.int8),
    }
    packed = PackedQuantizationCompressor.compress(state, scheme)
    return packed, PackedQuantizationCompressor.decompress(packed, scheme)["weight"]


def test_a_layer_is_read_as_compressed_tensors_reads_it() -> None:
    state, expected = compressed()
    read = dequantize(state["weight_packed"], state["weight_zero_point"], state["weight_scale"])
    assert torch.allclose(read, expected.float(), atol=1e-6)


def test_a_checkpoint_of_it_gives_every_weight(tmp_path: Path) -> None:
    tensors = {f"{LAYER}.{part}": tensor for part, tensor in compressed()[0].items()} | {
        "model.norm.weight": torch.ones(4)
    }
    save_file(tensors, tmp_path / "model.safetensors")
    checkpoint = PackedCheckpoint(tmp_path)
    assert checkpoint.quantized == (LAYER,)
    assert {name for name, _ in checkpoint.weights()} == {f"{LAYER}.weight", "model.norm.weight"}
