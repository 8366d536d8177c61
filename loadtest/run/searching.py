"""The search for the highest rate inside the SLA: each step is a stage of the run, judged by its own figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from loadtest.options import LoadOptions, SlaLimits
from loadtest.shapes.search import StepSearch, step_seconds
from loadtest.statistics.results import RunResult, SearchResult, SearchStep
from loadtest.statistics.sla import misses

from .messages import Stage

LEAST_CONFIRMATION_S: Final = 30.0


@dataclass
class Searching:
    """What to try next, and what was found. The last stage is the run at the rate that was found: its figures are the
    run's.
    """

    options: LoadOptions
    sla: SlaLimits
    _steps: StepSearch = field(init=False)
    _tried: list[SearchStep] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        assert self.options.peak_rate is not None
        self._steps = StepSearch(self.options.rate, self.options.peak_rate)

    def stage(self, number: int) -> Stage | None:
        """The stage to run next; None when not even the lowest rate was inside, and there is nothing to confirm."""
        warmup_s = self.options.warmup_s
        rate = self._steps.rate
        if rate is not None:
            return Stage(number=number, rate=rate, seconds=warmup_s + step_seconds(rate))
        if self._steps.inside is None:
            return None
        found = self._steps.inside
        seconds = self.options.duration_s or max(LEAST_CONFIRMATION_S, step_seconds(found))
        return Stage(number=number, rate=found, seconds=warmup_s + seconds)

    @property
    def is_confirming(self) -> bool:
        """Whether the next stage is the last one."""
        return self._steps.rate is None

    def judge(self, result: RunResult) -> SearchStep:
        """The verdict on the step that has ended, by its figures."""
        rate = self._steps.rate
        assert rate is not None
        reasons = outside(result, self.sla)
        step = SearchStep(rate=rate, inside=not reasons, reasons=tuple(reasons))
        self._steps.judge(inside=step.inside)
        self._tried.append(step)
        return step

    def found(self) -> SearchResult:
        """What is known so far."""
        return SearchResult(
            highest_rate_inside=self._steps.inside,
            lowest_rate_outside=self._steps.outside,
            steps=tuple(self._tried),
        )


def outside(result: RunResult, sla: SlaLimits) -> Sequence[str]:
    """Why a step was not inside; empty when it was.

    The lowest steps cannot reach `min_qps`, which is judged in the end. What still ran when the step's time to finish
    was over shows a server that falls behind, even if what it did finish was in time.
    """
    limits = sla.model_copy(update={"min_qps": None})
    reasons = []
    for target in result.targets:
        reasons += [f"{target.target}: {miss.text()}" for miss in misses(target, limits)]
        if target.cut:
            reasons.append(f"{target.target}: {target.cut} requests were not answered in time")
    return reasons
