"""One change of the weights, done exactly once however often it is begun: the weights are set, then it is history."""

from __future__ import annotations

from typing import Protocol

from .folder import ReleaseFolder
from .history import Event
from .weights import Weights, same


class RouteWeights(Protocol):
    """Whatever divides a route's requests: the release file of a router, or a proxy in front of several servers."""

    def read(self) -> dict[str, float]:
        """The weights in force, percent by target. Raises ReleaseFileError."""
        ...

    def write(self, weights: Weights) -> None:
        """Put these in force; it is durable when this returns. Raises ReleaseFileError."""
        ...


def carry_out(event: Event, weights: RouteWeights, folder: ReleaseFolder) -> None:
    """Do what the event says unless it was done already. The event has been written down before, as what is to be."""
    history = folder.history
    if history.holds(event.id):
        return
    if not same(weights.read(), event.after):
        weights.write(event.after)
    history.append(event)
