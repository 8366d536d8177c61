"""What the web UI needs to know of the run that is on, or was on last."""

from __future__ import annotations

from typing import Protocol

from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline


class LiveRun(Protocol):
    """The run as the web UI sees it; asked every second or two while a browser looks on."""

    def result(self) -> RunResult | None:
        """The figures so far; None before the first run, and while nothing has been counted yet."""

    def timeline(self, since: int = 0) -> Timeline | None:
        """The whole seconds from `since` on, counted from the start of the run; None before the first run."""
