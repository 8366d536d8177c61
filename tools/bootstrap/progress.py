"""Progress of jobs that run side by side: lines redrawn in place on a terminal, one line per phase elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

# Without a terminal (CI logs), say at least this often that work goes on, in seconds.
HEARTBEAT = 20.0


@dataclass
class _Job:
    phase: str
    started: float
    finished: float | None = None
    printed: str = ""


class Progress:
    """Phases of named jobs. `set` may be called from any thread, `draw` from one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream` is standard error unless given."""
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._jobs: dict[str, _Job] = {}
        self._guard = threading.Lock()
        self._lines_drawn = 0
        self._last_print = time.monotonic()

    def set(self, job: str, phase: str, *, finished: bool = False) -> None:
        now = time.monotonic()
        with self._guard:
            entry = self._jobs.setdefault(job, _Job(phase, now))
            entry.phase = phase
            entry.finished = now if finished else None

    def draw(self) -> None:
        with self._guard:
            if self._live:
                self._redraw()
            else:
                self._print_changes()

    def _redraw(self) -> None:
        width = max((len(name) for name in self._jobs), default=0)
        above = f"\x1b[{self._lines_drawn}F" if self._lines_drawn else ""
        lines = [f"\x1b[2K  {name:<{width}}  {_elapsed(job)}  {job.phase}\n" for name, job in self._jobs.items()]
        self._stream.write(above + "".join(lines))
        self._stream.flush()
        self._lines_drawn = len(lines)

    def _print_changes(self) -> None:
        now = time.monotonic()
        due = now - self._last_print >= HEARTBEAT
        for name, job in self._jobs.items():
            # "fetching packages, 3 of 170" and "..., 4 of 170" are one phase.
            phase = job.phase.partition(",")[0]
            if phase != job.printed or (due and job.finished is None):
                self._stream.write(f"  {name}  {_elapsed(job)}  {job.phase}\n")
                job.printed = phase
                self._last_print = now
        self._stream.flush()


class ReportedProgress(Progress):
    """Phases handed to a function instead of a stream, for a caller that draws progress of its own."""

    def __init__(self, report: Callable[[str], None]) -> None:
        super().__init__()
        self._report = report

    def draw(self) -> None:
        with self._guard:
            for name, job in self._jobs.items():
                if job.phase != job.printed:
                    self._report(f"{name}: {job.phase}")
                    job.printed = job.phase


def _elapsed(job: _Job) -> str:
    seconds = int((job.finished or time.monotonic()) - job.started)
    return f"{seconds // 60}:{seconds % 60:02d}"
