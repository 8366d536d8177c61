"""Confidence limits for what the router's counters hold: shares, means, and quantiles of histograms. Pure.

`z` is the standard normal quantile that goes with the wanted confidence. The formulas are closed: nothing is drawn, so
the same counts always give the same verdict.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from .observation import Histogram


def critical_value(error: float) -> float:
    """The z of a one-sided limit that is wrong with probability `error`."""
    # Not of 1 - error, which is 1 for an error that is small enough.
    return -NormalDist().inv_cdf(error)


def wilson(successes: float, total: int, z: float) -> tuple[float, float]:
    """Score interval of a share (Wilson, JASA 22, 1927). (0, 1) without trials."""
    if not total:
        return 0.0, 1.0
    share = successes / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


def least_rise(successes: tuple[int, int], trials: tuple[int, int], z: float) -> float:
    """Lower limit of share 0 minus share 1 (Newcombe, Statistics in Medicine 17, 1998, method 10)."""
    (low, _), (_, high) = (wilson(*pair, z) for pair in zip(successes, trials, strict=True))
    first, second = (count / total if total else 0.0 for count, total in zip(successes, trials, strict=True))
    return first - second - math.hypot(first - low, high - second)


def quantile(histogram: Histogram, share: float) -> float | None:
    """The value below which `share` of the values lie, linear within its bucket, as PromQL's histogram_quantile has it.

    None without values; the highest bound when it lies above all of them.
    """
    if not histogram.total:
        return None
    index = bucket_of(histogram, share)
    low, high = histogram.edges(index)
    if math.isinf(high):
        return low
    before = sum(histogram.counts[:index])
    inside = (share * histogram.total - before) / histogram.counts[index]
    return low + (high - low) * min(1.0, max(0.0, inside))


def bucket_of(histogram: Histogram, share: float) -> int:
    """Index of the bucket that holds the quantile of a histogram that is not empty."""
    rank = share * histogram.total
    reached = 0
    for index, count in enumerate(histogram.counts):
        reached += count
        if count and reached >= rank:
            return index
    return max(index for index, count in enumerate(histogram.counts) if count)


def least_quantile_ratio(
    canary: Histogram, stable: Histogram, share: float, sizes: tuple[int, int], z: float
) -> tuple[float, float]:
    """How many times the stable histogram's quantile the canary's is at least: by the buckets alone, and with
    confidence.

    Where in its bucket a quantile lies is not known. So the canary's counts as the lower edge of its bucket and the
    stable one's as the upper edge: no difference that may be the buckets' is taken for one of the targets. A limit of a
    quantile is the quantile at the Wilson limit of its rank (Woodruff, JASA 47, 1952); the limits of both are joined on
    the scale of logarithms (Zou and Donner, Statistics in Medicine 27, 2008). `sizes` are the numbers of independent
    values, which may be smaller than the histograms' totals.
    """
    low_rank, _ = wilson(share * sizes[0], sizes[0], z)
    _, high_rank = wilson(share * sizes[1], sizes[1], z)
    slow, slow_limit = (canary.edges(bucket_of(canary, rank))[0] for rank in (share, low_rank))
    fast, fast_limit = (stable.edges(bucket_of(stable, rank))[1] for rank in (share, high_rank))
    if not slow or math.isinf(fast):
        return 0.0, 0.0
    if not slow_limit or math.isinf(fast_limit):
        return slow / fast, 0.0
    return slow / fast, slow / fast * math.exp(-math.hypot(math.log(slow / slow_limit), math.log(fast_limit / fast)))


def relative_error(histogram: Histogram) -> float:
    """Standard error of the mean, as a share of the mean. Every value counts as the edge of its bucket that is farther
    from the mean, so it is never too small; infinite for fewer than two values or a mean of 0.
    """
    total = histogram.total
    if total < 2 or histogram.sum <= 0:
        return math.inf
    mean = histogram.sum / total
    squares = 0.0
    for index, count in enumerate(histogram.counts):
        if count:
            low, high = histogram.edges(index)
            if math.isinf(high):
                # Together they are no more than the sum of all values.
                high = max(low, histogram.sum / count)
            squares += count * max((low - mean) ** 2, (high - mean) ** 2)
    return math.sqrt(squares / (total - 1) / total) / mean
