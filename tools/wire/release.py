"""The compiled release: what the router's engine process made of the release file, in the form its stub chooses by.

Weights and shares are whole numbers of 0.1 %, values are text, and everything has been checked.
"""

from __future__ import annotations

from typing import Final

import msgspec

# A weight or share of everything.
WHOLE: Final = 1000


def parameter_text(value: object) -> str:
    """The value of a request parameter, or one it is compared with, as text: 1 and 1.0 are "1", true is "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


class Target(msgspec.Struct, array_like=True, frozen=True):
    """One model version. `max_in_flight` 0 is no bound; `weight` is 0 for a fallback."""

    model: str
    version: int
    weight: int = 0
    max_in_flight: int = 0

    @property
    def identity(self) -> tuple[str, int]:
        """Model and version: what in-flight counts and engines are kept by."""
        return self.model, self.version


class Shadow(msgspec.Struct, array_like=True, frozen=True):
    """Where copies go: `share` of the requests, at most `max_in_flight` at once."""

    model: str
    version: int
    share: int
    max_in_flight: int

    @property
    def identity(self) -> tuple[str, int]:
        return self.model, self.version


class Condition(msgspec.Struct, array_like=True, frozen=True):
    """What has to hold for a request: for each parameter or header one of the values; `over` < tokens < `under`.

    Headers have lower-case names. -1 and 0 mean that there is no such bound.
    """

    parameters: dict[str, list[str]] = {}
    headers: dict[str, list[str]] = {}
    over: int = -1
    under: int = 0


class Route(msgspec.Struct, array_like=True, frozen=True):
    """One route; without a `condition` it takes every request. `sticky` is empty where requests are spread at random.

    `fallback` is in order and may repeat the targets.
    """

    name: str
    targets: list[Target]
    fallback: list[Target] = []
    condition: Condition | None = None
    sticky: str = ""
    shadow: Shadow | None = None


class Release(msgspec.Struct, array_like=True, frozen=True):
    """The routes in order; the last takes every request."""

    routes: list[Route]


class WatchRelease(msgspec.Struct, array_like=True, tag="watch_release"):
    """Asks the router's engine for the release: now, and again whenever it changes or the file breaks."""


class Released(msgspec.Struct, array_like=True, tag="released"):
    """The release in force and the file it came from, as far as there is one, and what is wrong with the file now."""

    release: Release | None
    source: str = ""
    problem: str = ""
