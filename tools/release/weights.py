"""Weights of a route, percent by MODEL:VERSION: what a step makes of them, and how they are written. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tools.spec.release import TENTHS_OF_ALL, tenths

Weights = Mapping[str, float]


def weights_with(before: Weights, given: Weights) -> dict[str, float]:
    """`before` with the `given` weights; the others keep their proportions in what is left.

    Rounded to tenths that add up to 100 %, by largest remainder. Raises ValueError for weights that leave less than
    nothing, or something that nobody is there to take.
    """
    others = {name: tenths(weight) for name, weight in before.items() if name not in given and weight}
    left = TENTHS_OF_ALL - sum(tenths(weight) for weight in given.values())
    if left < 0:
        raise ValueError(f"{text_of(given)} are more than 100 % together")
    if left and not others:
        raise ValueError(f"{text_of(given) or 'no weight'} leaves {left / 10:g} % that no other target can take")
    exact = {name: left * weight / sum(others.values()) for name, weight in others.items()}
    rounded = {name: math.floor(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (rounded[name] - exact[name], name))
    for name in by_remainder[: left - sum(rounded.values())]:
        rounded[name] += 1
    return {name: weight / 10 for name, weight in rounded.items()} | {
        name: tenths(weight) / 10 for name, weight in given.items()
    }


def heaviest_but(weights: Weights, target: str) -> str:
    """The target with the most weight besides `target`; empty when no other has one."""
    others = {name: weight for name, weight in weights.items() if name != target and weight}
    return max(others, key=lambda name: (others[name], name), default="")


def same(one: Weights, other: Weights) -> bool:
    """Whether both give everybody the same; a weight of 0 is none."""
    return _present(one) == _present(other)


def text_of(weights: Weights) -> str:
    """For people: the heaviest first, those without a weight left out."""
    named = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {weight:g} %" for name, weight in named if weight)


def _present(weights: Weights) -> dict[str, int]:
    return {name: tenths(weight) for name, weight in weights.items() if tenths(weight)}
