"""How good a rung's answers are, and where that is known from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.reporting.examples import BF16, GIT, MACHINE, V2, V3
from tools.artifacts.quality import RungQuality, record
from tools.evaluation.results import (
    Choice,
    Evaluation,
    Format,
    NotMeasured,
    Perplexity,
    RungResult,
    Settings,
    Verdict,
)
from tools.reporting.errors import ReportError
from tools.reporting.model import Quality
from tools.reporting.rung_quality import quality_of, read_evaluation

RESULT = RungResult(
    rung="llm_bf16:1",
    artifact=BF16,
    perplexity=Perplexity(text="shipped", windows=4, tokens=2000, loss=3.83, perplexity=46.06),
    choice=Choice(
        dataset="MMLU",
        questions=100,
        correct=27,
        accuracy=27.0,
        standard_error=4.4,
        unanswered=0,
        shortened=0,
        subjects={},
    ),
    format=Format(passed_percent=93.75, kinds={}),
    verdict=Verdict(failures=(), not_judged=()),
)
EVALUATION = Evaluation(
    started_at=datetime(2026, 11, 30, tzinfo=UTC),
    seconds=60.0,
    complete=True,
    machine=MACHINE,
    git=GIT,
    profile="cpu-smollm2",
    server="2.51.0",
    settings=Settings(suites=(), text=None, mmlu=None, limit=None, seed=0, window=512, concurrency=8, deadline_s=300.0),
    reference="llm_bf16:1",
    rungs=(RESULT,),
)


def test_an_evaluations_figures_are_quoted(tmp_path: Path) -> None:
    assert quality_of(V2, EVALUATION, tmp_path) == Quality(
        text="perplexity 46.1, MMLU 27.0 %, format 94 %",
        outside=(),
        source="./ladder eval, 2026-11-30, commit 8eaa592c0ffe",
    )


def test_a_suite_that_was_not_measured_is_left_out(tmp_path: Path) -> None:
    result = RESULT.model_copy(update={"choice": NotMeasured(not_measured="no letters"), "format": None})
    evaluation = EVALUATION.model_copy(update={"rungs": (result,)})
    assert quality_of(V2, evaluation, tmp_path).text == "perplexity 46.1"


def test_a_rung_outside_its_limits_says_which(tmp_path: Path) -> None:
    verdict = Verdict(failures=("perplexity 90 is over 70",), not_judged=())
    evaluation = EVALUATION.model_copy(update={"rungs": (RESULT.model_copy(update={"verdict": verdict}),)})
    assert quality_of(V2, evaluation, tmp_path).outside == ("perplexity 90 is over 70",)


def test_without_a_file_the_verdict_beside_the_weights_counts(tmp_path: Path) -> None:
    folder = tmp_path / BF16
    folder.mkdir(parents=True)
    nothing = Quality(text="not measured", outside=None, source="./ladder eval measures it")
    assert quality_of(V2, None, tmp_path) == nothing
    record(folder, "llm_bf16:1", RungQuality(profile="p", measured_at="2026-11-30T20:31:45+00:00", failures=()))
    assert quality_of(V2, None, tmp_path) == Quality(
        text="inside its limits", outside=(), source="./ladder eval, 2026-11-30"
    )
    # A rung that an evaluation leaves out has its own verdict still; others have none.
    assert quality_of(V2, EVALUATION.model_copy(update={"rungs": ()}), tmp_path).text == "inside its limits"
    assert quality_of(V3, EVALUATION, tmp_path) == nothing
    record(folder, "llm_bf16:1", RungQuality(profile="p", measured_at="2026-12-01T00:00:00", failures=("too bad",)))
    assert quality_of(V2, None, tmp_path).text == "outside its limits"


def test_a_verdict_on_other_weights_counts_as_none(tmp_path: Path) -> None:
    folder = tmp_path / BF16
    folder.mkdir(parents=True)
    record(folder, "llm_bf16:1", RungQuality(profile="p", measured_at="2026-11-30", failures=()))
    (folder / "model.safetensors").write_bytes(b"new")
    assert quality_of(V2, None, tmp_path).text == "not measured"
    (folder / "ladder-quality.json").write_text("nonsense")
    assert quality_of(V2, None, tmp_path).text == "not measured"


def test_an_evaluation_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "quality.json"
    file.write_text(EVALUATION.model_dump_json())
    assert read_evaluation(file) == EVALUATION
    with pytest.raises(ReportError, match=r'the evaluation "[^"]*nothing" cannot be read'):
        read_evaluation(tmp_path / "nothing")
    file.write_text("{}")
    with pytest.raises(ReportError, match=r"is no evaluation \(started_at: Field required\): give the file that"):
        read_evaluation(file)
