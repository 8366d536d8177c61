"""Reading the header of a safetensors file: names, dtypes and shapes, without a weight."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.errors import ArtifactError

_LENGTH = struct.Struct("<Q")
# The format's own limit for its header, in bytes.
_LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class TensorEntry:
    """One tensor: `dtype` as the format writes it (BF16, F32), and its shape."""

    dtype: str
    shape: tuple[int, ...]


def read_header(file: Path) -> Mapping[str, TensorEntry]:
    """The tensors of a file, by name. Raises ArtifactError when the file is cut short or is something else."""
    with file.open("rb") as content:
        prefix = content.read(_LENGTH.size)
        length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else _LONGEST_HEADER + 1
        if length > _LONGEST_HEADER:
            raise ArtifactError(f'"{file}" is no safetensors file: delete its folder and run the command again')
        try:
            header = json.loads(content.read(length))
        except ValueError as error:
            raise ArtifactError(f'"{file}" has a broken header ({error}): delete its folder and try again') from error
    header.pop("__metadata__", None)
    expected = _LENGTH.size + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    size = file.stat().st_size
    if size != expected:
        raise ArtifactError(
            f'"{file}" has {size} bytes, its header says {expected}: delete its folder and run the command again'
        )
    return {name: TensorEntry(entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}
