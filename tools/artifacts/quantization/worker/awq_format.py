"""AWQ's "gemm" layout, read without the quantiser that wrote it, which would read its own mistakes.

8 output columns share an int32, in the order 0 2 4 6 1 3 5 7 from the lowest bits up; weight = (q - zero) * scale, with
one zero and scale for every group of inputs of an output.
"""

from __future__ import annotations

from typing import Final

import torch

# The tensors of a layer, after its name.
PARTS: Final = ("qweight", "qzeros", "scales")

_BITS: Final = 4
_MASK: Final = 15
# Where column 0, 1, ... 7 of a packed integer lies, in steps of 4 bits.
_PLACES: Final = (0, 4, 1, 5, 2, 6, 3, 7)


def unpack_columns(packed: torch.Tensor) -> torch.Tensor:
    """[rows, columns / 8] int32 to [rows, columns] of 0 to 15."""
    shifts = torch.tensor(_PLACES, dtype=torch.int32, device=packed.device) * _BITS
    return ((packed.unsqueeze(-1) >> shifts) & _MASK).flatten(1)


def dequantize(qweight: torch.Tensor, qzeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The weight [outputs, inputs] in float32. qweight [inputs, outputs / 8], qzeros and scales a row a group."""
    group = qweight.shape[0] // scales.shape[0]
    zeros = unpack_columns(qzeros).repeat_interleave(group, dim=0)
    scale = scales.float().repeat_interleave(group, dim=0)
    return ((unpack_columns(qweight) - zeros) * scale).T.contiguous()
