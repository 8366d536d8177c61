"""Walks the ladder: every cell that is not there yet, by turns, one rung after the other."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from tools.client.request import Target
from tools.reporting.cells import CellRecord, CellResult, CellStore, PlannedCell, State
from tools.reporting.errors import ReportError
from tools.reporting.locust_cell import RunLoad
from tools.reporting.pace import Pace
from tools.reporting.server_metrics import EngineMetrics


class Progress(Protocol):
    """What is told of a walk. `left_s` is None before anything can be said."""

    def begin(self, cell: PlannedCell, number: int, total: int, left_s: float | None) -> None: ...

    def end(self, cell: PlannedCell, record: CellRecord) -> None: ...

    def say(self, text: str) -> None: ...


class ServedRung(Protocol):
    """A rung that answers at `host`."""

    host: str

    def warm_up(self) -> None:
        """One short request that is not counted. Raises ReportError when it is not answered."""

    def metrics(self) -> EngineMetrics: ...


Serve = Callable[[Target], AbstractContextManager[ServedRung]]
"""Makes sure that a rung is served, for as long as the context lasts. Raises ReportError."""


@dataclass(slots=True)
class Walked:
    """The cells with what came of them, and why earlier ones were measured again, by how many."""

    records: dict[PlannedCell, CellRecord] = field(default_factory=dict)
    reused: set[PlannedCell] = field(default_factory=set)
    stale: Counter[str] = field(default_factory=Counter)


class Walk:
    """Measures what a store lacks."""

    def __init__(
        self,
        store: CellStore,
        serve: Serve,
        run_load: RunLoad,
        progress: Progress,
        budget_s: float | None = None,
    ) -> None:
        """No cell is begun when `budget_s` have passed; those that are left out of time keep what is known of them."""
        self._store = store
        self._ends_at = None if budget_s is None else time.monotonic() + budget_s
        self._budget_s = budget_s
        self._serve = serve
        self._run_load = run_load
        self._progress = progress
        self._pace = Pace()
        self._todo: list[PlannedCell] = []

    def walk(self, turns: Sequence[Sequence[PlannedCell]]) -> Walked:
        """Turn after turn; each holds cells of one rung, lowest level first.

        A rung that fails a level is asked no higher one. KeyboardInterrupt leaves every finished cell in the store.
        """
        walked = self._reusable(turns)
        self._todo = [cell for turn in turns for cell in turn if cell not in walked.reused]
        for cell in walked.reused:
            self._pace.took(cell, walked.records[cell].seconds)
        for turn in turns:
            self._turn(deque(cell for cell in turn if cell not in walked.reused), walked)
        return walked

    def _reusable(self, turns: Sequence[Sequence[PlannedCell]]) -> Walked:
        walked = Walked()
        for cell in (cell for turn in turns for cell in turn):
            record = self._store.read(cell)
            if record is None or record.state != "measured":
                continue
            differences = record.key.differences(cell.key)
            if differences:
                walked.stale[", ".join(differences)] += 1
            else:
                walked.records[cell] = record
                walked.reused.add(cell)
        if walked.reused:
            self._progress.say(f"{len(walked.reused)} cells are there from an earlier run and are used again")
        for reason, count in walked.stale.items():
            self._progress.say(f"{count} cells of an earlier run do not count and are measured again: other {reason}")
        return walked

    def _turn(self, left: deque[PlannedCell], walked: Walked) -> None:
        try:
            if not self._out_of_time() and any(_obstacle(cell, walked) is None for cell in left):
                with self._serve(left[0].target) as rung:
                    rung.warm_up()
                    while left:
                        self._measure_or_skip(left.popleft(), rung, walked)
        except ReportError as error:
            for cell in left:
                self._not_measured(cell, "failed", str(error), walked)
            return
        for cell in left:
            self._skip(cell, walked)

    def _measure_or_skip(self, cell: PlannedCell, rung: ServedRung, walked: Walked) -> None:
        if _obstacle(cell, walked) is None and not self._out_of_time():
            self._measure(cell, rung, walked)
        else:
            self._skip(cell, walked)

    def _out_of_time(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def _skip(self, cell: PlannedCell, walked: Walked) -> None:
        if _obstacle(cell, walked) is None:
            known = self._store.read(cell)
            if known is not None and known.state != "measured" and not known.key.differences(cell.key):
                walked.records[cell] = known
                return
            reason = f"not tried: the time budget of {self._budget_s:g} s was spent"
            self._not_measured(cell, "skipped", reason, walked)
            return
        reason = f"not tried, because the rung failed at concurrency {_obstacle(cell, walked)}"
        self._not_measured(cell, "skipped", reason, walked)

    def _measure(self, cell: PlannedCell, rung: ServedRung, walked: Walked) -> None:
        open_cells = [other for other in self._todo if other not in walked.records]
        number = len(self._todo) - len(open_cells) + 1
        self._progress.begin(cell, number, len(self._todo), self._pace.left_s(open_cells))
        folder = self._store.begin(cell)
        before, started = rung.metrics(), time.monotonic()
        try:
            self._run_load(cell.key.load.model_copy(update={"host": rung.host}), folder, cell.key.workers)
            reason = CellResult.read(folder).trouble()
        except ReportError as error:
            reason = str(error)
        after, seconds = rung.metrics(), time.monotonic() - started
        record = CellRecord(
            key=cell.key,
            state="failed" if reason else "measured",
            reason=reason,
            seconds=seconds,
            drafting=after.drafting.since(before.drafting),
            peak_memory_bytes=after.peak_memory_bytes,
        )
        self._pace.took(cell, seconds)
        self._finish(cell, record, walked)

    def _not_measured(self, cell: PlannedCell, state: State, reason: str, walked: Walked) -> None:
        self._store.begin(cell)
        self._finish(cell, CellRecord(key=cell.key, state=state, reason=reason), walked)

    def _finish(self, cell: PlannedCell, record: CellRecord, walked: Walked) -> None:
        self._store.finish(cell, record)
        walked.records[cell] = record
        self._progress.end(cell, record)


def _obstacle(cell: PlannedCell, walked: Walked) -> int | None:
    """The level, this one or a lower one, at which the cell's rung has failed in this walk."""
    failed = (
        other.level
        for other, record in walked.records.items()
        if other.rung == cell.rung and other.level <= cell.level and record.state == "failed"
    )
    return min(failed, default=None)
