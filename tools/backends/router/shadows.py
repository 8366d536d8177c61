"""Copies of requests for a shadow target: their answers are compared with the real ones, and seen by nobody.

A copy is only made where an engine is ready for it and not too many run; it waits behind everything else in that
engine's queue, and whatever becomes of it the real request knows nothing of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from tools.wire import release_metrics as names
from tools.wire.messages import Cancel, Delta, Request, Submit
from tools.wire.release import Shadow

from .metrics import ReleaseMetrics, Series
from .peers import EnginePeer, EnginePeers, Identity

# Later than anything that somebody waits for: Triton's priorities count down to 1, the highest.
_PRIORITY: Final = 2**31 - 1


class Copy:
    """What a shadow is asked. Both answers are kept until they can be compared; None where they cannot be."""

    __slots__ = ("key", "peer", "real", "real_ended", "series", "text")

    def __init__(self, key: int, peer: EnginePeer, series: Series, *, compares: bool) -> None:
        self.key = key
        self.peer = peer
        self.series = series
        self.text: str | None = None
        self.real: list[str] | None = [] if compares else None
        self.real_ended = False

    def keep_real(self, delta: Delta) -> None:
        """A part of the real answer."""
        if self.real is not None:
            self.real += delta.texts

    def compare(self) -> None:
        """Count what can be said once both answers are complete."""
        if self.real is not None and self.text is not None and self.real_ended:
            self.series.count(names.SHADOW_COMPARED)
            if "".join(self.real) != self.text:
                self.series.count(names.SHADOW_DIFFERENCES)


class Shadows:
    """All copies that are on their way; called with the router's lock held."""

    def __init__(self, peers: EnginePeers, metrics: ReleaseMetrics, next_key: Callable[[], int]) -> None:
        self._peers = peers
        self._metrics = metrics
        self._next_key = next_key
        self._copies: dict[int, Copy] = {}
        self._in_flight: Counter[Identity] = Counter()

    def send(self, request: Request, route: str, shadow: Shadow) -> Copy | None:
        """Send a copy, unless that would pile up."""
        ready = [peer for peer in self._peers.of(shadow.identity) if peer.ready]
        if not ready or self._in_flight[shadow.identity] >= shadow.max_in_flight:
            return None
        peer = min(ready, key=lambda peer: peer.in_flight)
        series = self._metrics.series(route, shadow.identity)
        copy = Copy(self._next_key(), peer, series, compares=_is_greedy(request))
        self._copies[copy.key] = copy
        self._in_flight[shadow.identity] += 1
        peer.in_flight += 1
        series.count(names.SHADOWS)
        # In one piece: nobody reads it as it comes.
        asked = msgspec.structs.replace(request, key=copy.key, stream=False, priority=_PRIORITY)
        peer.send(Submit([asked]))
        return copy

    def take(self, delta: Delta) -> None:
        """A delta that belongs to a copy, or to nothing that anybody still wants."""
        copy = self._copies.get(delta.key)
        if copy is None or not delta.final:
            return
        self._forget(copy)
        if delta.failure is not None:
            copy.series.count(names.SHADOW_FAILURES)
            return
        copy.text = "".join(delta.texts)
        copy.compare()

    def real_ended(self, copy: Copy, last: Delta) -> None:
        """The request that was copied has ended; if it failed, there is nothing to compare with."""
        copy.real_ended = last.failure is None
        if copy.real_ended:
            copy.compare()
        elif copy.key in self._copies:
            self._forget(copy)
            copy.peer.send(Cancel([copy.key]))

    def keys_at(self, peer: EnginePeer) -> list[int]:
        """Copies at an engine."""
        return [key for key, copy in self._copies.items() if copy.peer is peer]

    def _forget(self, copy: Copy) -> None:
        del self._copies[copy.key]
        self._in_flight[copy.peer.identity] -= 1
        copy.peer.in_flight -= 1


def _is_greedy(request: Request) -> bool:
    """Whether two engines ought to give the same answer: one sequence at temperature 0."""
    try:
        parameters = json.loads(request.parameters)
        return float(parameters["temperature"]) == 0.0 and int(parameters.get("n", 1)) == 1
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
