"""What an artifact was made from, written into its folder as the last of its files."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

MANIFEST: Final = "ladder-manifest.json"
_BLOCK = 1 << 20


Method = Literal["autoawq", "llmcompressor"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Recipe(_Part):
    """How weights were quantised: `group_size` of them share a scale and, with `zero_point`, a zero.

    `clip_search` looks for the range of every group, after the scales. Calibration is `calibration_tokens` at most, in
    blocks of `sequence_length`.
    """

    method: Method
    bits: Literal[4] = 4
    group_size: int
    zero_point: bool = True
    clip_search: bool
    sequence_length: int
    calibration_tokens: int


class Calibration(_Part):
    """What calibration read: of `texts`, whose content has the hash, `tokens` were used and `tokens_left_out` were not.

    `texts_cut` counts the texts that are not wholly among them, to keep within the recipe's number of tokens.
    """

    sha256: str
    texts: int
    texts_cut: int
    tokens: int
    tokens_left_out: int


class Losses(_Part):
    """Mean negative log likelihood of the same held-out text, in nats a token, measured in one run.

    `rounded` is the original with every quantised layer rounded to nearest at the same group size.
    """

    heldout_sha256: str
    tokens: int
    original: float
    rounded: float
    quantized: float

    @staticmethod
    def perplexity(loss: float) -> float:
        """exp(loss); infinite where that is more than a float holds."""
        return math.exp(loss) if loss < 700 else math.inf


class Gate(_Part):
    """Whether the artifact may be served, and the measurements that decided it, one sentence each."""

    passed: bool
    reasons: tuple[str, ...]


class Quantization(_Part):
    """How a quantised artifact was made; `seconds` without layers that an earlier run had finished."""

    recipe: Recipe
    calibration: Calibration
    losses: Losses
    device: Literal["cpu", "cuda"]
    threads: int
    seconds: float
    resumed_layers: int


class Manifest(BaseModel):
    """Origin and content of an artifact.

    `versions` are those of the packages that made it; `files` maps each file's name to its size in bytes. An artifact
    without a `gate` was not measured.
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
    quantization: Quantization | None = None
    gate: Gate | None = None

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
            partial.write_text(self.model_dump_json(indent=2, exclude_none=True) + "\n", encoding="utf-8")
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
