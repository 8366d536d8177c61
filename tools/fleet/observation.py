"""What happened on each track: the counters of its servers' release routers, added up."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Final

from tools.release.observation import Counts, Histogram, Observation, observation_in
from tools.release.weights import Weights

from .plan import TrackName

# A server that is started again counts for more than any number of engines that are.
_SERVER_START: Final = 1_000_000


def track_observation(
    pages: Mapping[TrackName, Sequence[str]], starts: Mapping[TrackName, int], weights: Weights
) -> Observation:
    """The look that the servers' metrics pages give; targets are tracks, `starts` how often their servers were started.

    Raises ValueError for servers that count in different buckets.
    """
    at = time.time()
    by_track = {track: [look for page in found for look in _looks(page, at)] for track, found in pages.items()}
    return Observation(
        at=at,
        counts={track: total(chain(*(look.counts.values() for look in looks))) for track, looks in by_track.items()},
        weights=weights,
        in_flight={track: sum(sum(look.in_flight.values()) for look in looks) for track, looks in by_track.items()},
        engines_up={
            track: all(up for look in looks for up in look.engines_up.values()) for track, looks in by_track.items()
        },
        restarts={
            track: starts[track] * _SERVER_START + sum(sum(look.restarts.values()) for look in looks)
            for track, looks in by_track.items()
        },
        file_broken=any(look.file_broken for looks in by_track.values() for look in looks),
    )


def _looks(page: str, at: float) -> list[Observation]:
    """One for each route of the page; of engines the first one tells."""
    routes = sorted(set(re.findall(r'^ladder_release_\w+\{[^}]*\broute="([^"]+)"', page, re.M)))
    looks = [observation_in(page, route, at) for route in routes]
    return looks[:1] + [look.model_copy(update={"restarts": {}, "engines_up": {}}) for look in looks[1:]]


def total(counts: Iterable[Counts]) -> Counts:
    """All of them together."""
    return reduce(_sum, counts, Counts())


def _sum(one: Counts, other: Counts) -> Counts:
    return Counts(
        requests=one.requests + other.requests,
        answered=one.answered + other.answered,
        errors=Counter(one.errors) + Counter(other.errors),
        finished=Counter(one.finished) + Counter(other.finished),
        ttft=_joined(one.ttft, other.ttft),
        itl=_joined(one.itl, other.itl),
        output_tokens=_joined(one.output_tokens, other.output_tokens),
    )


def _joined(one: Histogram, other: Histogram) -> Histogram:
    """Raises ValueError for other buckets, which servers of two versions of this project have."""
    if not one.total or not other.total:
        return one if one.total else other
    if one.bounds != other.bounds:
        raise ValueError("two servers count in different buckets")
    counts = tuple(here + there for here, there in zip(one.counts, other.counts, strict=True))
    return Histogram(bounds=one.bounds, counts=counts, sum=one.sum + other.sum)
