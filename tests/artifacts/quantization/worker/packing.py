"""Packing weights as AWQ's "gemm" layout has them, for tests that need a quantised checkpoint and no quantiser."""

from __future__ import annotations

import torch

ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def pack_columns(values: torch.Tensor) -> torch.Tensor:
    """[rows, columns] of 0 to 15 to [rows, columns / 8] int32."""
    packed = torch.zeros(values.shape[0], values.shape[1] // 8, dtype=torch.int64)
    for place, column in enumerate(ORDER):
        packed |= values[:, column::8].long() << (4 * place)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


def pack(weight: torch.Tensor, group_size: int) -> dict[str, torch.Tensor]:
    """qweight, qzeros and scales of a weight [outputs, inputs], rounded to nearest."""
    outputs, inputs = weight.shape
    grouped = weight.float().reshape(outputs, inputs // group_size, group_size)
    lowest, highest = grouped.amin(-1), grouped.amax(-1)
    scales = ((highest - lowest) / 15).half()
    zeros = (-lowest / scales.float()).round().clamp(0, 15)
    levels = ((grouped / scales.float()[..., None]).round() + zeros[..., None]).clamp(0, 15).reshape(outputs, inputs)
    return {
        "qweight": pack_columns(levels.T),
        "qzeros": pack_columns(zeros.T),
        "scales": scales.T.contiguous(),
    }
