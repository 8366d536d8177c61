"""The plan of a release: its steps, how long each is watched, and how much worse the new version may be."""

from __future__ import annotations

from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, model_validator

from tools.spec.base import PositiveFloat, PositiveInt, SpecModel, failure, unknown_name
from tools.spec.document import Document, DocumentError, document_text
from tools.spec.release import Percent

from .errors import ReleaseError

DEFAULT_PLAN: Final = "canary"

Margin = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Confidence = Annotated[float, Field(gt=0.5, lt=1)]


class Margins(SpecModel):
    """How much worse than the stable target the new one may be. Points are percentage points.

    `output_tokens_percent` and `finish_reasons_points` hold in both directions; the others only for the worse.
    """

    error_rate_points: Margin = 1.0
    ttft_p95_percent: Margin = 25.0
    itl_p95_percent: Margin = 25.0
    output_tokens_percent: Margin = 30.0
    finish_reasons_points: Margin = 15.0


class GoldenPrompt(SpecModel):
    """A question. With `expect`, an answer that contains it (letter case aside) counts for the quality score."""

    ask: Annotated[str, Field(min_length=1)]
    expect: Annotated[str, Field(min_length=1)] | None = None


class Golden(SpecModel):
    """Questions that both versions are asked at temperature 0, before the first step.

    `min_equal_percent`: share of tokens before the first difference that both answers must have in common, at least.
    `max_score_drop_points`: how much lower the quality score may be, the share of the answers that hold what is
    expected; asked again at the end of every step, under the load of that step.
    """

    prompts: Annotated[tuple[GoldenPrompt, ...], Field(strict=False, min_length=1)]
    max_tokens: PositiveInt = 32
    deadline_s: PositiveFloat = 120.0
    min_equal_percent: Annotated[float, Field(ge=0, le=100)] = 0.0
    max_score_drop_points: Margin = 20.0

    @property
    def scored(self) -> bool:
        """Whether there is a quality score."""
        return any(prompt.expect is not None for prompt in self.prompts)


class Plan(SpecModel):
    """How a release walks.

    `steps` are the new version's shares, in percent. At each it is watched for at least `bake_s` seconds, until
    both targets have ended `min_requests` requests. A step that cannot be judged within `patience_s` is paused.
    `confidence`: with how much a difference beyond a margin has to be certain before it ends the release.
    """

    steps: Annotated[tuple[Percent, ...], Field(strict=False, min_length=1)]
    bake_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60.0
    patience_s: PositiveFloat = 3600.0
    min_requests: PositiveInt = 50
    confidence: Confidence = 0.95
    margins: Margins = Field(default_factory=Margins)
    golden: Golden | None = None

    @property
    def takes_all(self) -> bool:
        """Whether the last step leaves nothing to the stable target."""
        return self.steps[-1] == 100

    @model_validator(mode="after")
    def _steps_rise(self) -> Plan:
        written = ", ".join(f"{step:g}" for step in self.steps)
        if self.steps[0] <= 0 or any(later <= earlier for earlier, later in pairwise(self.steps)):
            raise failure(f'"steps" ({written}) have to rise, from above 0')
        if self.patience_s < self.bake_s:
            raise failure(
                f'"patience_s" ({self.patience_s:g}) is shorter than "bake_s" ({self.bake_s:g}): every step would be '
                "given up before it is judged"
            )
        return self


def shipped_plans() -> list[str]:
    """Names of the plans that come with the project, sorted."""
    return sorted(Path(entry.name).stem for entry in _directory().iterdir() if entry.name.endswith(".yaml"))


def load_plan(name_or_path: str = DEFAULT_PLAN) -> Plan:
    """The shipped plan of that name, or the one in that YAML file.

    A text with a "/" or a YAML suffix is a path, anything else a name. Raises ReleaseError.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return _load_file(Path(name_or_path))
    shipped = shipped_plans()
    if name_or_path not in shipped:
        raise ReleaseError(unknown_name("plan", name_or_path, shipped, ".yaml"))
    source = f"{name_or_path}.yaml"
    return parse_plan(_directory().joinpath(source).read_text(encoding="utf-8"), source)


def parse_plan(text: str, source: str) -> Plan:
    """The plan in `text`; `source` is the file's name for error texts. Raises ReleaseError."""
    try:
        return Document(text, source, "release plan").check(Plan)
    except DocumentError as error:
        raise ReleaseError(str(error)) from None


def _directory() -> resources.abc.Traversable:
    return resources.files(__package__).joinpath("plans")


def _load_file(path: Path) -> Plan:
    missing = f"give the path of a YAML file, or a shipped name ({', '.join(shipped_plans())})"
    try:
        text = document_text(path, "plan", missing)
    except DocumentError as error:
        raise ReleaseError(str(error)) from None
    return parse_plan(text, str(path))
