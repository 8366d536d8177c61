"""What an evaluation found, as its JSON has it. Shares and accuracies are in percent."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from tools.benchmark.machine import Machine


class Suite(StrEnum):
    """The four things that are measured, in the order in which they are."""

    PERPLEXITY = "perplexity"
    CHOICE = "choice"
    FORMAT = "format"
    AGREEMENT = "agreement"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NotMeasured(_Record):
    """`error`: something broke, and the evaluation is incomplete; otherwise the rung cannot be asked this."""

    not_measured: str
    error: bool = False


class Perplexity(_Record):
    """Of `tokens` scored tokens. `loss` is the mean negative log-likelihood in nats, `perplexity` its exponential."""

    text: str
    windows: int
    tokens: int
    loss: float
    perplexity: float


class SubjectAccuracy(_Record):
    """One subject of a multiple-choice set."""

    questions: int
    correct: int


class Choice(_Record):
    """Multiple choice. `accuracy` counts every question alike, whatever its subject.

    `standard_error` is that of a share, in percentage points. `unanswered`: the rung named no letter, which counts as
    wrong. `shortened`: prompts that had to leave examples out to be taken.
    """

    dataset: str
    questions: int
    correct: int
    accuracy: float
    standard_error: float
    unanswered: int
    shortened: int
    subjects: dict[str, SubjectAccuracy]


class KindOfCase(_Record):
    """The cases of one kind in the format suite, and the names of those that failed, with the reason."""

    cases: int
    passed: int
    failures: dict[str, str]


class Format(_Record):
    """The format suite; `passed_percent` is over all cases."""

    passed_percent: float
    kinds: dict[str, KindOfCase]


class Agreement(_Record):
    """Greedy answers against those of the reference: mean share of equal tokens before the first difference."""

    prompts: int
    identical: int
    equal_percent: float


Figure = Perplexity | Choice | Format | Agreement


class Verdict(_Record):
    """`failures` are sentences with figure and limit; `not_judged` names limits whose figure was not measured."""

    failures: tuple[str, ...]
    not_judged: tuple[str, ...]


class RungResult(_Record):
    """One served model version. A suite that was not asked for, or not reached, is null; so is the verdict where the
    profile sets no limit.

    `artifact` is the path of its weights in the profile; null for a model that the profile does not have.
    """

    rung: str
    artifact: str | None
    perplexity: Perplexity | NotMeasured | None = None
    choice: Choice | NotMeasured | None = None
    format: Format | NotMeasured | None = None
    agreement: Agreement | NotMeasured | None = None
    verdict: Verdict | None = None

    @property
    def unmeasured(self) -> list[NotMeasured]:
        """Suites that were asked for and have no figures."""
        suites = (self.perplexity, self.choice, self.format, self.agreement)
        return [found for found in suites if isinstance(found, NotMeasured)]

    @property
    def broken(self) -> list[NotMeasured]:
        """Suites that broke, other than those that the rung cannot answer."""
        return [found for found in self.unmeasured if found.error]


class GitState(_Record):
    """The commit of this checkout, null outside one; `dirty` when tracked files differ from it."""

    commit: str | None
    dirty: bool


class Settings(_Record):
    """What was asked, and how. `text` and `mmlu` are null for what the project ships; `limit` is per subject.

    Everything is greedy: `seed` only chooses the questions that a `limit` keeps. With a `concurrency` above 1 the
    engine batches, and rounding differs with the batch: two runs of one rung then need not agree to the last token.
    """

    suites: tuple[Suite, ...]
    text: str | None
    mmlu: str | None
    limit: int | None
    seed: int
    window: int
    concurrency: int
    deadline_s: float


class Evaluation(_Record):
    """A whole run. `complete` is false when it was interrupted or a suite broke: what is there was measured.

    `reference` is the rung that the others are compared with; its own row is the first.
    """

    started_at: datetime
    seconds: float
    complete: bool
    machine: Machine
    git: GitState
    profile: str
    server: str
    settings: Settings
    reference: str
    rungs: tuple[RungResult, ...]
