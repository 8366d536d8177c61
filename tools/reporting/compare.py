"""Two reports against each other: what has become slower, or faster, beyond what chance makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from loadtest.statistics.records import Record
from tools.benchmark.machine import Machine
from tools.reporting.bootstrap import Interval, Rows, change_interval, median_over_repeats
from tools.reporting.errors import IncomparableError, ReportError
from tools.reporting.figures import KINDS, Cell, Figure
from tools.reporting.model import Report
from tools.reporting.records import answers_in
from tools.reporting.settings import Settings

Verdict = Literal["regression", "improvement", "no difference seen"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Change(_Record):
    """One figure of one rung at one level, before and after: medians, and the change in percent."""

    rung: str
    level: int
    figure: Figure
    before: float
    after: float
    interval: Interval
    verdict: Verdict


class Lost(_Record):
    """What was measured in one report and is no figure in the other, which says why."""

    rung: str
    level: int
    only_in: Literal["before", "after"]
    reason: str


class Comparison(_Record):
    """A whole comparison. `tolerance` is in percent; `notes` are differences that may explain the changes.

    A figure regresses when it is worse by more than the tolerance and its 95 % interval leaves out no change at all.
    """

    before: str
    after: str
    tolerance: float
    seed: int
    notes: tuple[str, ...]
    changes: tuple[Change, ...]
    lost: tuple[Lost, ...]

    @property
    def regressed(self) -> bool:
        """Whether something has become worse; what can no longer be measured is worse, too."""
        return any(change.verdict == "regression" for change in self.changes) or any(
            lost.only_in == "before" for lost in self.lost
        )


def compare(
    before: tuple[Report, Path],
    after: tuple[Report, Path],
    *,
    tolerance: float,
    seed: int = 0,
    across_machines: bool = False,
) -> Comparison:
    """`before` and `after` are reports with their folders; `tolerance` in percent.

    Raises IncomparableError: another workload, another machine (unless `across_machines`), or nothing in common;
    ReportError when records cannot be read.
    """
    (old, _), (new, _) = before, after
    require_comparable(old, new, across_machines=across_machines)
    changes: list[Change] = []
    lost: list[Lost] = []
    for rung, level in _common(old, new):
        measured = [_measured(report, rung, level) for report in (old, new)]
        if all(measured):
            changes += _changes(rung, level, measured, (before[1], after[1]), tolerance, seed)
        elif any(measured):
            lost.append(_lost(rung, level, old, new, only_in="before" if measured[0] else "after"))
    if not changes:
        raise IncomparableError("the two reports have no figure in common: measure the same rungs at the same levels")
    return Comparison(
        before=str(before[1]),
        after=str(after[1]),
        tolerance=tolerance,
        seed=seed,
        notes=tuple(_notes(old, new)),
        changes=tuple(changes),
        lost=tuple(lost),
    )


def require_comparable(old: Report, new: Report, *, across_machines: bool) -> None:
    """Raises IncomparableError with every reason."""
    reasons = [*_other_workload(old.settings, new.settings)]
    if old.model != new.model:
        reasons.append(f'model: "{old.model}" and "{new.model}"')
    machines = list(_other_machine(old.machine, new.machine))
    if machines and not across_machines:
        reasons += [*machines, "(--across-machines compares them all the same)"]
    if reasons:
        raise IncomparableError("the reports cannot be compared:\n" + "\n".join(f"  {reason}" for reason in reasons))


def verdict_of(figure: Figure, interval: Interval, tolerance: float) -> Verdict:
    """What a change amounts to; `tolerance` in percent."""
    if not interval.excludes_zero or abs(interval.change) <= tolerance:
        return "no difference seen"
    better = (interval.change > 0) == KINDS[figure].more_is_better
    return "improvement" if better else "regression"


def _changes(
    rung: str, level: int, measured: Sequence[Sequence[Cell]], folders: Sequence[Path], tolerance: float, seed: int
) -> Iterator[Change]:
    answers = [[_answers(cell, folder) for cell in cells] for cells, folder in zip(measured, folders, strict=True)]
    for figure in KINDS:
        before, after = ([_rows(figure, repeat) for repeat in repeats] for repeats in answers)
        statistic = _throughput if figure == "tokens_per_s" else _median
        interval = change_interval(before, after, statistic, seed)
        yield Change(
            rung=rung,
            level=level,
            figure=figure,
            before=median_over_repeats(before, statistic),
            after=median_over_repeats(after, statistic),
            interval=interval,
            verdict=verdict_of(figure, interval, tolerance),
        )


@dataclass(frozen=True, slots=True)
class _Repeat:
    """The answers of one cell, and its throughput."""

    answers: Sequence[Record]
    tokens_per_s: float


def _answers(cell: Cell, folder: Path) -> _Repeat:
    assert cell.figures is not None
    answers = answers_in(folder / cell.folder)
    if not answers:
        raise ReportError(f'"{folder / cell.folder}" has no record of an answer: make the report again')
    return _Repeat(answers, cell.figures.tokens_per_s)


def _rows(figure: Figure, repeat: _Repeat) -> Rows:
    """What `_throughput` or `_median` takes."""
    if figure != "tokens_per_s":
        values = (getattr(answer, figure) for answer in repeat.answers)
        return np.array([[value] for value in values if value is not None], dtype=np.float64)
    tokens = np.array([answer.output_tokens for answer in repeat.answers], dtype=np.float64)
    milliseconds = np.array([answer.e2e_ms for answer in repeat.answers], dtype=np.float64)
    # In a closed loop throughput is streams times tokens by latency (Little's law). What of a cell's clock its answers
    # do not show, the ramp at either end, is a factor that stays the same however they are drawn.
    factor = repeat.tokens_per_s * milliseconds.sum() / tokens.sum()
    return np.column_stack([tokens * factor, milliseconds])


def _throughput(rows: Rows) -> Rows:
    tokens, milliseconds = rows[..., 0], rows[..., 1]
    found: Rows = tokens.sum(axis=-1) / milliseconds.sum(axis=-1)
    return found


def _median(rows: Rows) -> Rows:
    found: Rows = np.median(rows[..., 0], axis=-1)
    return found


def _measured(report: Report, rung: str, level: int) -> list[Cell]:
    return [cell for cell in report.cells_of(rung, level) if cell.state == "measured"]


def _common(old: Report, new: Report) -> Iterator[tuple[str, int]]:
    """Rungs and levels that both reports were asked for."""
    rungs = {rung.facts.label for rung in new.rungs}
    levels = set(new.settings.levels)
    for rung in old.rungs:
        if rung.facts.label in rungs:
            yield from ((rung.facts.label, level) for level in old.settings.levels if level in levels)


def _lost(rung: str, level: int, old: Report, new: Report, *, only_in: Literal["before", "after"]) -> Lost:
    without = new if only_in == "before" else old
    reasons = dict.fromkeys(cell.reason for cell in without.cells_of(rung, level) if cell.reason)
    return Lost(rung=rung, level=level, only_in=only_in, reason="; ".join(reasons) or "not measured")


def _other_workload(old: Settings, new: Settings) -> Iterator[str]:
    for name in (
        "input_tokens",
        "output_tokens",
        "requests_per_stream",
        "min_requests",
        "seed",
        "protocol",
        "isolated",
    ):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name.replace('_', ' ')}: {before} and {after}"


def _other_machine(old: Machine, new: Machine) -> Iterator[str]:
    for name in ("cpu", "cores", "memory_gib", "gpus"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"machine, {name.replace('_', ' ')}: {before or 'none'} and {after or 'none'}"


def _notes(old: Report, new: Report) -> Iterator[str]:
    yield from _other_machine(old.machine, new.machine)
    for name in dict.fromkeys([*old.machine.versions, *new.machine.versions]):
        before, after = old.machine.versions.get(name, "none"), new.machine.versions.get(name, "none")
        if before != after:
            yield f"{name} {before} and {after}"
    if old.git != new.git:
        yield f"commit {_commit(old)} and {_commit(new)}"
    if old.profile != new.profile:
        yield f'profile "{old.profile}" and "{new.profile}"'


def _commit(report: Report) -> str:
    return (report.git.commit or "none")[:12] + (" with changes" if report.git.dirty else "")
