"""What a release needs of whatever divides the requests: a server's router, or a proxy in front of servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .controller import Candidate, Traffic
from .folder import ReleaseFolder
from .ledger import RouteWeights
from .weights import Weights


class CheckedCandidate(Candidate, Protocol):
    """A new version that can also be asked whether it is ready, without preparing it."""

    def require_ready(self, target: str) -> None:
        """Raises ReleaseError unless the target could answer now."""
        ...


class Steered(Protocol):
    """Where weights are set and traffic is watched."""

    @property
    def option(self) -> str:
        """What the commands of a release need to find it, with a blank before it; empty when they need nothing."""
        ...

    @property
    def divider(self) -> str:
        """What divides the traffic, as it is called in messages."""
        ...

    @property
    def folder(self) -> ReleaseFolder:
        """The files of its releases."""
        ...

    @property
    def routes(self) -> Sequence[str]:
        """What requests are told apart by, before they are divided; the last takes what no other does."""
        ...

    def route_name(self, name: str | None) -> str:
        """The route of that name, or the last one. Raises ReleaseError."""
        ...

    def target_name(self, text: str) -> str:
        """A target as a person writes it. Raises ReleaseError for what can be none."""
        ...

    def weights(self, route: str) -> RouteWeights:
        """The route's weights."""
        ...

    def traffic(self, route: str) -> Traffic:
        """What happens on the route."""
        ...

    @property
    def candidate(self) -> CheckedCandidate:
        """Versions, before they get requests."""
        ...

    def check(self, route: str, weights: Weights) -> None:
        """Raises ReleaseError for weights that the route cannot have."""
        ...
