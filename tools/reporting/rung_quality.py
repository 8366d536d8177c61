"""How good the rungs' answers are: from an evaluation's file, or from the verdict kept beside the weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from tools.artifacts.quality import QUALITY, ArtifactQuality
from tools.evaluation.results import Choice, Evaluation, Format, Perplexity, RungResult
from tools.reporting.errors import ReportError
from tools.reporting.model import Quality
from tools.reporting.rungs import RungFacts

_NONE = Quality(text="not measured", outside=None, source="./ladder eval measures it")


def read_evaluation(file: Path) -> Evaluation:
    """What `./ladder eval --out` wrote. Raises ReportError."""
    try:
        return Evaluation.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f'the evaluation "{file}" cannot be read: {error}') from None
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(map(str, detail["loc"]))
        raise ReportError(
            f'"{file}" is no evaluation ({where}: {detail["msg"]}): give the file that ./ladder eval --out wrote'
        ) from None


def quality_of(rung: RungFacts, evaluation: Evaluation | None, home: Path) -> Quality:
    """The rung's quality; `home` is the checkout's root."""
    if evaluation is not None:
        for result in evaluation.rungs:
            if result.rung == rung.target:
                return _measured(result, evaluation)
    return _recorded(rung, home)


def _measured(result: RungResult, evaluation: Evaluation) -> Quality:
    commit = (evaluation.git.commit or "")[:12]
    return Quality(
        text=", ".join(_figures(result)) or "not measured",
        outside=result.verdict.failures if result.verdict is not None else None,
        source=f"./ladder eval, {evaluation.started_at:%Y-%m-%d}" + (f", commit {commit}" if commit else ""),
    )


def _figures(result: RungResult) -> Iterator[str]:
    if isinstance(result.perplexity, Perplexity):
        yield f"perplexity {result.perplexity.perplexity:.1f}"
    if isinstance(result.choice, Choice):
        yield f"{result.choice.dataset} {result.choice.accuracy:.1f} %"
    if isinstance(result.format, Format):
        yield f"format {result.format.passed_percent:.0f} %"


def _recorded(rung: RungFacts, home: Path) -> Quality:
    folder = home / rung.weights
    if not (folder / QUALITY).is_file():
        return _NONE
    try:
        verdict = ArtifactQuality.read(folder).rungs.get(rung.target)
    except ValidationError:
        return _NONE
    if verdict is None:
        return _NONE
    return Quality(
        text="outside its limits" if verdict.failures else "inside its limits",
        outside=verdict.failures,
        source=f"./ladder eval, {verdict.measured_at[:10]}",
    )
