from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts import provision
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Gate, Manifest
from tools.artifacts.quality import RungQuality, record
from tools.bootstrap.layout import Layout

MAKER = """
import pathlib, sys
folder = pathlib.Path(sys.argv[1])
print("first", flush=True)
print("second", flush=True)
{behaviour}
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def maker(layout: Layout, behaviour: str) -> None:
    main = layout.home / "tools" / "artifacts" / "__main__.py"
    main.parent.mkdir(parents=True)
    main.write_text(MAKER.format(behaviour=behaviour), encoding="utf-8")


def test_progress_of_the_maker_is_passed_on(layout: Layout) -> None:
    maker(layout, "folder.mkdir(parents=True)")
    phases: list[str] = []
    folder = layout.models / "smollm2-135m-instruct"
    provision.provide(folder, "SmolLM2", layout, phases.append)
    assert phases == ["first", "second"]
    assert folder.is_dir()


def test_a_failure_shows_the_end_of_what_the_maker_said(layout: Layout) -> None:
    maker(layout, "sys.exit('the reason')")
    folder = layout.models / "smollm2-135m-instruct"
    with pytest.raises(ArtifactError) as failure:
        provision.provide(folder, "SmolLM2", layout, lambda _: None)
    assert str(failure.value) == f'"{folder}" could not be made:\n  the reason'


def test_an_interruption_ends_the_maker(layout: Layout) -> None:
    maker(layout, "import time; time.sleep(60)")

    def interrupt(phase: str) -> None:
        if phase == "second":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        provision.provide(layout.models / "smollm2-135m-instruct", "SmolLM2", layout, interrupt)


def test_nothing_is_started_for_what_cannot_be_made(layout: Layout) -> None:
    with pytest.raises(ArtifactError, match="cannot be made here"):
        provision.provide(layout.models / "llama-2-7b-chat", "Llama", layout, lambda _: None)
    assert not layout.logs.exists()


def artifact(folder: Path, gate: Gate | None) -> None:
    folder.mkdir()
    made = Manifest(name="a", source="s", source_sha256="0", versions={}, tensors=0, dtype="INT4", files={}, gate=gate)
    made.write(folder)


def test_an_artifact_that_failed_its_gate_is_refused_with_the_reasons_and_both_ways_out(tmp_path: Path) -> None:
    artifact(tmp_path / "awq", Gate(passed=False, reasons=("perplexity 8 became 90", "more")))
    with pytest.raises(ArtifactError) as refusal:
        provision.check_gate(tmp_path / "awq")
    text = str(refusal.value)
    assert text.startswith(f'"{tmp_path / "awq"}" failed its quality gate: perplexity 8 became 90; more. Quantise it')
    assert "./ladder quantize --force" in text
    assert text.endswith("./ladder up --accept-failed-artifacts")


def test_an_artifact_that_failed_eval_is_refused_until_it_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "awq"
    artifact(folder, Gate(passed=True, reasons=("fine",)))
    record(folder, "llm_awq:1", RungQuality(profile="p", measured_at="now", failures=("perplexity 90, at most 70",)))
    with pytest.raises(ArtifactError) as refusal:
        provision.check_gate(folder)
    assert str(refusal.value) == (
        f'"{folder}" failed ./ladder eval: llm_awq:1: perplexity 90, at most 70. Replace it, or serve it as it is: '
        "./ladder up --accept-failed-artifacts"
    )
    (folder / "more.safetensors").write_bytes(b"other weights")
    provision.check_gate(folder)


def test_one_that_passed_or_was_not_measured_or_was_placed_there_is_not(tmp_path: Path) -> None:
    artifact(tmp_path / "passed", Gate(passed=True, reasons=("fine",)))
    artifact(tmp_path / "unmeasured", None)
    for name in ("passed", "unmeasured", "placed"):
        provision.check_gate(tmp_path / name)
