"""What an artifact was made from, written into its folder as the last of its files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

MANIFEST: Final = "ladder-manifest.json"
_BLOCK = 1 << 20


class Manifest(BaseModel):
    """Origin and content of an artifact.

    `versions` are those of the packages that made it; `files` maps each file's name to its size in bytes.
    """

    # A kind of artifact that says more of itself (a draft head its acceptance) extends this; what all say is read here.
    model_config = ConfigDict(frozen=True)

    name: str
    source: str
    source_sha256: str
    versions: dict[str, str]
    tensors: int
    dtype: str
    files: dict[str, int]

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The manifest in a folder; None when there is none, or none that can be read."""
        try:
            return cls.model_validate_json((folder / MANIFEST).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, folder: Path) -> None:
        """Replaces the file as a whole. Raises OSError, and leaves what was there before."""
        partial = folder / f".{MANIFEST}.{os.getpid()}"
        try:
            partial.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
            partial.replace(folder / MANIFEST)
        finally:
            partial.unlink(missing_ok=True)

    def missing_from(self, folder: Path) -> list[str]:
        """Names of files that are not in the folder, or not with the size they had."""
        return [name for name, size in self.files.items() if _size(folder / name) != size]


def sizes_of(folder: Path) -> dict[str, int]:
    """Size in bytes of every file of a folder, by name."""
    return {file.name: file.stat().st_size for file in sorted(folder.iterdir()) if file.is_file()}


def sha256_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None
