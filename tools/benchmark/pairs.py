"""Two ways to run the same load, measured by turns: what else the machine does then falls on both alike."""

from __future__ import annotations

import time
from collections.abc import Callable

from .workload import Load, Tally

Measure = Callable[[Load], Tally]


def by_turns(load: Load, first: Measure, second: Measure, *, first_begins: bool, pause_s: float) -> tuple[Tally, Tally]:
    """What `first` and `second` measured, in this order whoever began; `pause_s` seconds of rest before each."""
    tallies = []
    for side in (first, second) if first_begins else (second, first):
        time.sleep(pause_s)
        tallies.append(side(load))
    one, other = tallies if first_begins else reversed(tallies)
    return one, other
