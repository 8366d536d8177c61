"""Finished layers on disk, so that an interrupted run goes on after the last of them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


class LayerStore:
    """One safetensors file a layer, by number; a file is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def finished(self) -> int:
        """How many layers from the first on are there."""
        number = 0
        while self._file(number).exists():
            number += 1
        return number

    def save(self, number: int, tensors: dict[str, torch.Tensor]) -> None:
        draft = self._folder / f".{number}.partial"
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, draft)
        draft.replace(self._file(number))

    def load(self, number: int) -> dict[str, torch.Tensor]:
        tensors: dict[str, torch.Tensor] = load_file(self._file(number))
        return tensors

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:04d}.safetensors"
