"""Counts of a target as the router would have them, made out of latencies and lengths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from tools.release.observation import Counts, Histogram
from tools.wire.metric_names import TOKENS
from tools.wire.release_metrics import LATENCY


def histogram(values: Iterable[float], bounds: Sequence[float] = LATENCY) -> Histogram:
    values = list(values)
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return Histogram(bounds=tuple(bounds), counts=tuple(counts), sum=sum(values))


def counts(
    ttft: Sequence[float],
    *,
    itl: Sequence[float] = (),
    failed: int = 0,
    cancelled: int = 0,
    tokens: Sequence[int] = (),
    stopped: int = 0,
) -> Counts:
    """One streamed and answered request for each TTFT, of 16 tokens and 15 steps of 20 ms unless it is said otherwise.

    `failed` more requests failed in the engine, and `cancelled` more were cancelled by their clients.
    """
    answered = len(ttft)
    errors = {"internal": failed, "cancelled": cancelled}
    finished = {"stop": stopped, "length": answered - stopped}
    return Counts(
        requests=answered + failed + cancelled,
        answered=answered,
        errors={reason: count for reason, count in errors.items() if count},
        finished={reason: count for reason, count in finished.items() if count},
        ttft=histogram(ttft),
        itl=histogram(itl or [0.02] * 15 * answered),
        output_tokens=histogram(tokens or [16] * answered, TOKENS),
    )
