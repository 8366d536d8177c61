from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tools.artifacts.errors import ArtifactError
from tools.artifacts.safetensors_file import TensorEntry, read_header


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file({"a": np.zeros((2, 3), np.float16), "b": np.ones(4, np.float32)}, file, metadata={"format": "pt"})
    return file


def test_names_dtypes_and_shapes_are_read(weights: Path) -> None:
    assert read_header(weights) == {"a": TensorEntry("F16", (2, 3)), "b": TensorEntry("F32", (4,))}


def test_a_file_that_is_cut_short_is_refused(weights: Path) -> None:
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    with pytest.raises(ArtifactError, match=rf'model.safetensors" has {len(content) - 1} bytes, its header says'):
        read_header(weights)


@pytest.mark.parametrize("content", [b"", b"1234", struct.pack("<Q", 1 << 60) + b"{}"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match='x" is no safetensors file: delete its folder'):
        read_header(file)


def test_a_broken_header_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(struct.pack("<Q", 2) + b"{x")
    with pytest.raises(ArtifactError, match='x" has a broken header'):
        read_header(file)
