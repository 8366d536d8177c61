"""What the web UI needs to know of the run that is on, or was on last."""

from __future__ import annotations

from typing import Protocol

from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline


class LiveRun(Protocol):
    """The run as the web UI sees it; asked every second or two while a browser looks on.

    Attributes:
        error: why the last run could not begin or go on; empty when it could.
    """

    error: str

    def result(self, *, with_histograms: bool = True) -> RunResult | None:
        """The figures so far; None before the first run. Encoding histograms takes time that a running test needs:
        leave them out of what is only looked at.
        """

    def timeline(self, since: int = 0) -> Timeline | None:
        """The seconds from `since` on, counted from the start of the run; None before the first run."""
