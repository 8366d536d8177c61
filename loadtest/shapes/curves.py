"""Arrivals a second over the time of a run, for the shapes of an open loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loadtest.options import LoadOptions, Shape

# A spike takes the middle fifth of the measured time.
_SPIKE: Final = (0.4, 0.6)


@dataclass(frozen=True, slots=True)
class RateCurve:
    """Straight lines between points (seconds since the start, arrivals a second), in ascending order.

    Before the first and after the last point the rate stays. Two points at the same second are a jump, and the later
    one holds from there on.
    """

    points: tuple[tuple[float, float], ...]

    @classmethod
    def constant(cls, rate: float) -> RateCurve:
        return cls(((0.0, rate),))

    @property
    def peak(self) -> float:
        """The highest rate there is at any time."""
        return max(rate for _, rate in self.points)

    def at(self, seconds: float) -> float:
        """Arrivals a second at that time."""
        before = [point for point in self.points if point[0] <= seconds]
        if not before:
            return self.points[0][1]
        if len(before) == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = before[-1], self.points[len(before)]
        return low + (high - low) * (seconds - left) / (right - left)


def curve_of(options: LoadOptions) -> RateCurve:
    """The curve of the options' shape, with the warm-up in front at its first rate.

    Raises ValueError for a ramp or a spike without `duration_s`, which are drawn over it.
    """
    if options.shape not in (Shape.RAMP, Shape.SPIKE):
        return RateCurve.constant(options.rate)
    if options.duration_s is None or options.peak_rate is None:
        raise ValueError(f'shape "{options.shape}" is drawn over the run: say how long that is')
    start, seconds = options.warmup_s, options.duration_s
    if options.shape is Shape.RAMP:
        return RateCurve(((start, options.rate), (start + seconds, options.peak_rate)))
    up, down = (start + share * seconds for share in _SPIKE)
    return RateCurve(((up, options.rate), (up, options.peak_rate), (down, options.peak_rate), (down, options.rate)))
