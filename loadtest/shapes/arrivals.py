"""When requests are due in an open loop: a Poisson process whose rate changes, and who sends which of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from .curves import RateCurve


def arrivals(curve: RateCurve, random: Random) -> Iterator[float]:
    """Seconds since the start, ascending, without end.

    A Poisson process at the curve's peak, thinned to the curve (Lewis and Shedler, "Simulation of nonhomogeneous
    Poisson processes by thinning", 1979). The same seed gives the same times.
    """
    peak, at = curve.peak, 0.0
    while True:
        at += random.expovariate(peak)
        if random.random() * peak < curve.at(at):
            yield at


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` processes that send a run together, `index` from 0.

    Every process draws the same arrivals and sends its own: together they are exactly the one stream that a single
    process would send, however many they are.
    """

    index: int = 0
    count: int = 1

    def takes(self, number: int, targets: int) -> bool:
        """Whether arrival `number` is this process's. Targets take turns, so each process gets to all of them."""
        return number // targets % self.count == self.index

    def number_of(self, place: int) -> int:
        """The number within the whole run of this process's `place`-th user, both from 0."""
        return place * self.count + self.index
