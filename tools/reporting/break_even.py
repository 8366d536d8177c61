"""Where speculation stops to pay: tokens/s with drafts over without, against concurrency. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from tools.benchmark.spread import Spread
from tools.reporting.gains import Gain


def throughput_ratios(gains: Sequence[Gain]) -> dict[int, Spread]:
    """By level, lowest first, over the rung that the last of the gains are over: the same weights without drafts."""
    over = gains[-1].over if gains else ""
    return {gain.level: gain.ratio for gain in gains if gain.over == over and gain.figure == "tokens_per_s"}


def crossing(ratios: Mapping[int, float]) -> tuple[float, int, int] | None:
    """The concurrency at which the ratio falls below 1, with the levels around it; None where it does not.

    Between two levels it is a straight line over the logarithm of the concurrency, as in the chart.
    """
    levels = sorted(ratios)
    for low, high in itertools.pairwise(levels):
        if ratios[low] >= 1 > ratios[high]:
            share = (ratios[low] - 1) / (ratios[low] - ratios[high])
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low))), low, high
    return None
