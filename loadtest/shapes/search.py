"""Step search for the highest rate at which a server keeps its promises: doubling, then halving the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Inside and outside this close together: measurements of a step scatter more than that.
PRECISION: Final = 0.05
_LEAST_STEP_S: Final = 10.0
_LEAST_ARRIVALS: Final = 40


@dataclass
class StepSearch:
    """Ask for `rate`, try it, `judge` it, until `rate` is None. Arrivals a second.

    Attributes:
        lowest, highest: the bounds; nothing outside them is tried.
        inside: the highest rate that kept the promises; None when not even the lowest did.
        outside: the lowest rate that did not; None when even the highest did.
    """

    lowest: float
    highest: float
    inside: float | None = None
    outside: float | None = None

    @property
    def rate(self) -> float | None:
        """What to try next; None when the search is over."""
        if self.inside is None:
            return self.lowest if self.outside is None else None
        if self.outside is None:
            return min(2 * self.inside, self.highest) if self.inside < self.highest else None
        return (self.inside + self.outside) / 2 if self.outside > self.inside * (1 + PRECISION) else None

    def judge(self, *, inside: bool) -> None:
        """The verdict on `rate`."""
        tried = self.rate
        if tried is None:
            raise ValueError("the search is over")
        if inside:
            self.inside = tried
        else:
            self.outside = tried


def step_seconds(rate: float) -> float:
    """How long a step at this rate is measured: long enough for its percentiles to mean something."""
    return max(_LEAST_STEP_S, _LEAST_ARRIVALS / rate)
