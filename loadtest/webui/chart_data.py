"""Figures as the browser's charts want them: columns over one axis, with None where nothing was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline
from loadtest.webui.target_table import color_of

# What a chart over time can show; the fields of the timeline that the scripts read.
OVER_TIME = (
    "requests",
    "failures",
    "output_tokens",
    "in_flight",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "itl_p50_ms",
    "itl_p95_ms",
)
NO_MARKS: dict[str, Any] = {"warmup_s": 0, "limits_ms": {}}
# The names of the histograms that are drawn.
LATENCIES = ("ttft", "tpot", "itl", "e2e")
_MOST_POINTS = 400


def targets(order: Sequence[str]) -> list[dict[str, Any]]:
    """The targets of a run and the number of each one's colour."""
    return [{"name": target, "color": color_of(target, order)} for target in order]


def marks(result: RunResult) -> dict[str, Any]:
    """What is marked in the charts: the end of the warm-up in seconds, and the limits of latencies by their names."""
    limits: dict[str, float | None] = {}
    if result.sla is not None:
        end_to_end = None if result.sla.p99_e2e_s is None else result.sla.p99_e2e_s * 1000
        limits = {"ttft": result.sla.ttft_ms, "tpot": result.sla.tpot_ms, "e2e": end_to_end}
    return {"warmup_s": result.options.warmup_s, "limits_ms": limits}


def over_time(timeline: Timeline) -> dict[str, dict[str, list[Any]]]:
    """Per target, `second` and the columns of `OVER_TIME`, all of the same length."""
    return {
        target: {name: [getattr(second, name) for second in seconds] for name in ("second", *OVER_TIME)}
        for target, seconds in timeline.targets.items()
    }


def distributions(result: RunResult) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Per latency and target, `ms` ascending and `share` in (0, 1): what part of the values is at most so long."""
    return {
        name: {
            target.target: distribution(target.histograms[name]) for target in result.rows if name in target.histograms
        }
        for name in LATENCIES
    }


def distribution(histogram: str) -> dict[str, list[float]]:
    """The points of a distribution out of an encoded histogram of microseconds, at most a few hundred.

    The n-th smallest of N values stands at the share (n - 0.5) / N (Hazen's plotting position), so that the largest
    one does not stand at 100 %, which has no place on an axis of nines.
    """
    points = list(_thinned(_recorded(HdrHistogram.decode(histogram))))
    return {"ms": [ms for ms, _ in points], "share": [share for _, share in points]}


def _recorded(histogram: HdrHistogram) -> Iterator[tuple[float, float]]:
    total = histogram.get_total_count()
    seen = 0
    # Its own iterator stops at each of the tens of thousands of empty buckets.
    for bucket in np.flatnonzero(np.ctypeslib.as_array(histogram.counts)).tolist():
        seen += histogram.get_count_at_index(bucket)
        longest_us = histogram.get_highest_equivalent_value(histogram.get_value_from_index(bucket))
        yield longest_us / 1000, (seen - 0.5) / total


def _thinned(points: Iterator[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Those points that can be told apart, by share in the bulk and by the number of nines in the tail."""
    last: int | None = None
    pending: tuple[float, float] | None = None
    for point in points:
        share = point[1]
        place = math.floor(share * _MOST_POINTS / 2) + math.floor(-math.log10(1 - share) * _MOST_POINTS / 10)
        pending = point
        if place != last:
            last = place
            pending = None
            yield point
    if pending is not None:
        yield pending
