"""Confidence intervals of a change between two sets of repeats, by resampling them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Rows = NDArray[np.float64]
"""The requests of one repeat: [requests, columns]."""

Statistic = Callable[[Rows], Rows]
"""From [..., requests, columns] to one figure a repeat, [...]."""

_RESAMPLES: Final = 2_000
_TAIL_PERCENT: Final = 2.5


class Interval(BaseModel):
    """A change in percent of what it was before, and the 95 % interval around it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def median_over_repeats(repeats: Sequence[Rows], statistic: Statistic) -> float:
    """The figure as a report states it."""
    return float(np.median([float(statistic(rows)) for rows in repeats]))


def change_interval(before: Sequence[Rows], after: Sequence[Rows], statistic: Statistic, seed: int) -> Interval:
    """Percentile bootstrap of the change in `median_over_repeats`, in percent.

    Two stages, as the data came about: repeats are drawn with replacement, and in each of those its requests, so that
    what differs from repeat to repeat widens the interval and a thousand requests of one repeat do not hide it (Davison
    and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8). The same seed gives the same interval.
    """
    random = np.random.default_rng(seed)
    changes = 100 * (_resampled(after, statistic, random) / _resampled(before, statistic, random) - 1)
    low, high = np.percentile(changes, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    change = 100 * (median_over_repeats(after, statistic) / median_over_repeats(before, statistic) - 1)
    return Interval(change=change, low=float(low), high=float(high))


def _resampled(repeats: Sequence[Rows], statistic: Statistic, random: np.random.Generator) -> Rows:
    """The figure of every resample."""
    drawn = random.integers(len(repeats), size=(_RESAMPLES, len(repeats)))
    figures = np.empty(drawn.shape)
    for number, rows in enumerate(repeats):
        places = drawn == number
        requests = random.integers(len(rows), size=(int(places.sum()), len(rows)))
        figures[places] = statistic(rows[requests])
    medians: Rows = np.median(figures, axis=1)
    return medians
