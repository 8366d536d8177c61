"""What happened on each track: what its servers' release routers count, added up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

from tools.release.observation import Counts, Histogram, Observation, observation_in
from tools.release.weights import Weights

# A server that is started again counts for more than any number of its engines that are.
_SERVER_START: Final = 1_000_000


@dataclass(frozen=True)
class ServerLook:
    """A look at one server. `starts` is how often it was started, `engine_restarts` of its engines since then."""

    starts: int
    counts: Counts = field(default_factory=Counts)
    in_flight: int = 0
    engines_up: bool = True
    engine_restarts: int = 0
    file_broken: bool = False

    @property
    def restarts(self) -> int:
        """A number that grows with every start of the server or of an engine."""
        return self.starts * _SERVER_START + self.engine_restarts


def server_look(page: str, starts: int) -> ServerLook:
    """What the text of a server's metrics page says, all its routes and targets together."""
    # The figures of engines and of the file are no route's: they come with every look, also that of no route.
    base = observation_in(page, "", 0.0)
    routes = sorted(set(re.findall(r'^ladder_release_\w+\{[^}]*\broute="([^"]+)"', page, re.M)))
    looks = [observation_in(page, route, 0.0) for route in routes]
    return ServerLook(
        starts=starts,
        counts=total(counts for look in looks for counts in look.counts.values()),
        in_flight=sum(sum(look.in_flight.values()) for look in looks),
        engines_up=all(base.engines_up.values()),
        engine_restarts=sum(base.restarts.values()),
        file_broken=base.file_broken,
    )


class Tally:
    """Counts of a server that is started again now and then, and counts from nothing each time."""

    def __init__(self) -> None:
        self._starts = 0
        self._before = Counts()
        self._latest = Counts()

    def add(self, look: ServerLook) -> ServerLook:
        """The look with all that was counted by now, by the server's earlier lives too."""
        if look.starts != self._starts:
            self._before = self.sum
            self._starts = look.starts
        self._latest = look.counts
        return replace(look, counts=self.sum)

    @property
    def sum(self) -> Counts:
        """All that was counted by the latest look."""
        return total([self._before, self._latest])


def fleet_observation(
    looks: Mapping[str, Iterable[ServerLook]], down: Collection[str], weights: Weights, at: float
) -> Observation:
    """The look at `at` (seconds since the epoch); targets are tracks, `down` those with a server that is.

    Raises ValueError for servers that count in different buckets.
    """
    by_track = {track: list(found) for track, found in looks.items()}
    return Observation(
        at=at,
        counts={track: total(look.counts for look in found) for track, found in by_track.items()},
        weights=weights,
        in_flight={track: sum(look.in_flight for look in found) for track, found in by_track.items()},
        engines_up={
            track: track not in down and all(look.engines_up for look in found) for track, found in by_track.items()
        },
        restarts={track: sum(look.restarts for look in found) for track, found in by_track.items()},
        file_broken=any(look.file_broken for found in by_track.values() for look in found),
    )


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
    """Raises ValueError for other buckets, which servers of two versions of this project may have."""
    if not one.total or not other.total:
        return one if one.total else other
    if one.bounds != other.bounds:
        raise ValueError("two servers count in different buckets")
    counts = tuple(here + there for here, there in zip(one.counts, other.counts, strict=True))
    return Histogram(bounds=one.bounds, counts=counts, sum=one.sum + other.sum)
