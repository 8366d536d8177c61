"""Verdicts beside the weights: kept, replaced by rung, and void once the weights have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts.manifest import MANIFEST
from tools.artifacts.quality import QUALITY, RungQuality, failed_reasons, record

PASSED = RungQuality(profile="p", measured_at="2026-11-30T00:00:00+00:00", failures=())
FAILED = PASSED.model_copy(update={"failures": ("perplexity 90.0, at most 20.0",)})
REASONS = ("llm_awq:1: perplexity 90.0, at most 20.0",)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "awq"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    return folder


def test_an_artifact_that_was_never_judged_has_no_reasons(artifact: Path) -> None:
    assert failed_reasons(artifact) == ()
    assert failed_reasons(artifact / "not made yet") == ()


def test_a_failure_is_kept_until_the_same_rung_passes(artifact: Path) -> None:
    assert record(artifact, "llm_awq:1", FAILED) == artifact / QUALITY
    assert failed_reasons(artifact) == REASONS
    record(artifact, "llm_eagle:1", PASSED)
    assert failed_reasons(artifact) == REASONS
    record(artifact, "llm_awq:1", PASSED)
    assert failed_reasons(artifact) == ()
    assert sorted(file.name for file in artifact.iterdir()) == [MANIFEST, QUALITY, "model.safetensors"]


@pytest.mark.parametrize(("name", "content"), [("model.safetensors", b"more weights"), (MANIFEST, b"[]")])
def test_a_verdict_on_what_has_changed_counts_as_none(artifact: Path, name: str, content: bytes) -> None:
    record(artifact, "llm_awq:1", FAILED)
    (artifact / name).write_bytes(content)
    assert failed_reasons(artifact) == ()
    record(artifact, "llm_eagle:1", FAILED)
    assert failed_reasons(artifact) == ("llm_eagle:1: perplexity 90.0, at most 20.0",)


def test_weights_without_a_manifest_are_known_by_their_size(artifact: Path) -> None:
    (artifact / MANIFEST).unlink()
    record(artifact, "llm_awq:1", FAILED)
    assert failed_reasons(artifact) == REASONS
    (artifact / "model.safetensors").write_bytes(b"other weights")
    assert failed_reasons(artifact) == ()


def test_a_verdict_that_cannot_be_read_is_a_reason(artifact: Path) -> None:
    (artifact / QUALITY).write_text('{"rungs": ', encoding="utf-8")
    assert failed_reasons(artifact) == (
        f'"{artifact / QUALITY}" is no verdict of `./ladder eval`: delete it, or evaluate the artifact again',
    )
    record(artifact, "llm_awq:1", FAILED)
    assert failed_reasons(artifact) == REASONS
