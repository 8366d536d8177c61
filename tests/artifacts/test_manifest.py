from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pytest

from tools.artifacts.manifest import MANIFEST, Losses, Manifest, sha256_of, sizes_of


def manifest(files: dict[str, int]) -> Manifest:
    return Manifest(
        name="m", source="m.gguf", source_sha256="00", versions={"torch": "2"}, tensors=1, dtype="BF16", files=files
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    manifest({"a": 3}).write(tmp_path)
    assert Manifest.read(tmp_path) == manifest({"a": 3})


def test_no_manifest_and_a_broken_one_are_none(tmp_path: Path) -> None:
    assert Manifest.read(tmp_path) is None
    (tmp_path / MANIFEST).write_text('{"name": 1', encoding="utf-8")
    assert Manifest.read(tmp_path) is None


def test_files_that_are_gone_or_cut_short_are_missing(tmp_path: Path) -> None:
    for name in ("whole", "short"):
        (tmp_path / name).write_bytes(b"123")
    assert sizes_of(tmp_path) == {"short": 3, "whole": 3}
    written = manifest({**sizes_of(tmp_path), "gone": 1})
    (tmp_path / "short").write_bytes(b"12")
    assert written.missing_from(tmp_path) == ["short", "gone"]


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "f").write_bytes(content)
    assert sha256_of(tmp_path / "f") == hashlib.sha256(content).hexdigest()


def test_a_manifest_without_measurements_names_none(tmp_path: Path) -> None:
    manifest({"a": 3}).write(tmp_path)
    assert set(json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))).isdisjoint({"gate", "quantization"})


def test_a_perplexity_no_float_holds_is_infinite() -> None:
    assert Losses.perplexity(2.0) == pytest.approx(7.389, abs=1e-3)
    assert Losses.perplexity(1e6) == math.inf
