"""A quantised checkpoint's files, and its weights as the unquantised model names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open

from tools.artifacts.errors import ArtifactError
from tools.artifacts.quantization.worker import awq_format, compressed_format
from tools.artifacts.safetensors_file import read_header

Dequantize = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
_LAYOUTS: Final[tuple[tuple[tuple[str, str, str], Dequantize], ...]] = (
    (awq_format.PARTS, awq_format.dequantize),
    (compressed_format.PARTS, compressed_format.dequantize),
)


class PackedCheckpoint:
    """Safetensors files in one of the two layouts; `quantized` names the layers that are packed.

    Raises ArtifactError for a folder without packed layers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Any] = {}
        for file in sorted(folder.glob("*.safetensors")):
            self._files |= dict.fromkeys(read_header(file), safe_open(str(file), framework="pt"))
        for self._parts, self._dequantize in _LAYOUTS:
            ending = f".{self._parts[0]}"
            self.quantized = tuple(name.removesuffix(ending) for name in self._files if name.endswith(ending))
            if self.quantized:
                return
        raise ArtifactError(f'"{folder}" holds no packed layer: quantise anew')

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every parameter by its name in the unquantised model, packed ones in float32."""
        for layer in self.quantized:
            packed, zeros, scales = (self._tensor(f"{layer}.{part}") for part in self._parts)
            yield f"{layer}.weight", self._dequantize(packed, zeros, scales)
        layers = tuple(f"{layer}." for layer in self.quantized)
        for name in self._files:
            if not name.startswith(layers) or name.endswith(".bias"):
                yield name, self._tensor(name)

    def _tensor(self, name: str) -> torch.Tensor:
        if name not in self._files:
            raise ArtifactError(f'"{self._folder}" holds no tensor "{name}": quantise anew')
        tensor: torch.Tensor = self._files[name].get_tensor(name)
        return tensor
