"""The "pack-quantized" layout of compressed-tensors with zero points, which llmcompressor writes.

8 inputs share an int32, the first in the lowest bits; zero points are packed the same way along the outputs. Both are
stored with 8 added, so that weight = (q - zero) * scale as it stands.
"""

from __future__ import annotations

from typing import Final

import torch

# The tensors of a layer, after its name.
PARTS: Final = ("weight_packed", "weight_zero_point", "weight_scale")

_BITS: Final = 4
_MASK: Final = 15


def unpack_rows(packed: torch.Tensor) -> torch.Tensor:
    """[rows, columns / 8] int32 to [rows, columns] of 0 to 15."""
    shifts = torch.arange(0, 32, _BITS, dtype=torch.int32, device=packed.device)
    return ((packed.unsqueeze(-1) >> shifts) & _MASK).flatten(1)


def dequantize(packed: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The weight [outputs, inputs] in float32. packed [outputs, inputs / 8], zeros [outputs / 8, groups], scales
    [outputs, groups]."""
    levels = unpack_rows(packed)
    group = levels.shape[1] // scales.shape[1]
    zero = unpack_rows(zeros.T).T.repeat_interleave(group, dim=1)
    return (levels - zero) * scales.float().repeat_interleave(group, dim=1)
