"""Which targets may answer a request, in which order. Pure: releases and facts in, choices out.

A sticky key is answered by weighted rendezvous hashing: every target draws a score for the key, and the highest wins.
With h uniform in (0, 1), score = -weight / ln(h) makes a target win in proportion to its weight (Schindelhauer and
Schomaker, "Weighted Distributed Hash Tables", 2005). A target's score depends on nothing but key, target and its own
weight, so a weight that grows moves keys to that target only, and one that shrinks moves only keys that it had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from tools.wire.release import WHOLE, Condition, Release, Route, Shadow, Target

# As many bits as leave room for the half that keeps h off 0 and 1 in a double.
_BITS = 52

Draw = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a request is chosen by: its parameters, values as text, and the tokens of its prompt."""

    parameters: Mapping[str, str]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The route that takes a request, its targets in the order they are to be tried, and where a copy goes, if any.

    `key` is the value that the request sticks by, empty where it was chosen at random.
    """

    route: Route
    targets: tuple[Target, ...]
    shadow: Shadow | None
    key: str


def choose(release: Release, facts: Facts, draw: Draw) -> Choice:
    """The choice for one request; `draw` gives numbers uniform in [0, 1)."""
    route = next(route for route in release.routes if route.condition is None or holds(route.condition, facts))
    key = facts.parameters.get(route.sticky, "") if route.sticky else ""
    first = pick_sticky(route.targets, key) if key else pick_random(route.targets, draw())
    fallback = tuple(target for target in route.fallback if target.identity != first.identity)
    shadow = route.shadow
    return Choice(route, (first, *fallback), shadow if shadow and draw() * WHOLE < shadow.share else None, key)


def holds(condition: Condition, facts: Facts) -> bool:
    """Whether everything that `condition` asks is so."""
    if not condition.over < facts.prompt_tokens or (condition.under and not facts.prompt_tokens < condition.under):
        return False
    if not _have(condition.parameters, facts.parameters):
        return False
    return not condition.headers or _have(
        condition.headers, {name.lower(): value for name, value in facts.parameters.items()}
    )


def pick_random(targets: Collection[Target], drawn: float) -> Target:
    """A target by weight; `drawn` is uniform in [0, 1)."""
    left = drawn * sum(target.weight for target in targets)
    for target in targets:
        if left < target.weight:
            return target
        left -= target.weight
    raise ValueError("no target has a weight")


def pick_sticky(targets: Collection[Target], key: str) -> Target:
    """The target that `key` sticks to."""
    return max(targets, key=lambda target: (score(target, key), target.identity))


def score(target: Target, key: str) -> float:
    """What `target` draws for `key`: 0 without a weight, else more than 0."""
    text = f"{target.model}\0{target.version}\0{key}"
    # Half a surrogate pair in a key, which JSON can spell, has to hash too.
    drawn = int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return -target.weight / math.log(((drawn >> (64 - _BITS)) + 0.5) / (1 << _BITS))


def without_own(release: Release, parameters: Mapping[str, object]) -> dict[str, object]:
    """`parameters` without those that the release reads: an engine would take them for sampling parameters."""
    own: set[str] = set()
    headers: set[str] = set()
    for route in release.routes:
        own.add(route.sticky)
        if route.condition is not None:
            own.update(route.condition.parameters)
            headers.update(route.condition.headers)
    return {name: value for name, value in parameters.items() if name not in own and name.lower() not in headers}


def _have(wanted: Mapping[str, Collection[str]], parameters: Mapping[str, str]) -> bool:
    return all(parameters.get(name) in values for name, values in wanted.items())
