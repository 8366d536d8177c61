"""Reading a quantised checkpoint back, without the quantiser that wrote it, which would read its own mistakes.

AWQ's "gemm" layout: 8 output columns share an int32, in the order 0 2 4 6 1 3 5 7 from the lowest bits up; weight =
(q - zero) * scale, with one zero and scale for every `group` inputs of an output.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from tools.artifacts.errors import ArtifactError
from tools.artifacts.safetensors_file import read_header

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
    inputs = qweight.shape[0]
    group = inputs // scales.shape[0]
    zeros = unpack_columns(qzeros).repeat_interleave(group, dim=0)
    scale = scales.float().repeat_interleave(group, dim=0)
    return ((unpack_columns(qweight) - zeros) * scale).T.contiguous()


class QuantizedCheckpoint:
    """Tensors of an AWQ checkpoint's safetensors files; `quantized` names the layers that are packed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}
        for file in sorted(folder.glob("*.safetensors")):
            self._files |= dict.fromkeys(read_header(file), safe_open(str(file), framework="pt"))
        self.quantized = tuple(name.removesuffix(".qweight") for name in self._files if name.endswith(".qweight"))
        if not self.quantized:
            raise ArtifactError(f'"{folder}" holds no packed layer: quantise anew')

    def __len__(self) -> int:
        return len(self._files)

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter by its name in the unquantised model, packed ones in float32."""
        for layer in self.quantized:
            parts = (self._tensor(f"{layer}.{part}") for part in ("qweight", "qzeros", "scales"))
            yield f"{layer}.weight", dequantize(*parts)
        packed = tuple(f"{layer}." for layer in self.quantized)
        for name in self._files:
            if not name.startswith(packed) or name.endswith(".bias"):
                yield name, self._tensor(name)

    def _tensor(self, name: str) -> torch.Tensor:
        if name not in self._files:
            raise ArtifactError(f'"{self._folder}" holds no tensor "{name}": quantise anew')
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor
