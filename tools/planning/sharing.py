"""Dividing one GPU among engines: the gpu_memory_utilization that each should get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

HEADROOM: Final = Fraction(2, 100)
"""Share of the GPU that is given to nobody: fragmentation, and what the estimates miss."""

_STEP: Final = 1000
"""Shares have three decimals: a thousandth of an H200 is 0.14 GiB."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an engine needs inside its share, in bytes: `fixed` beside the KV cache, of the cache `least` to start at
    all and `wanted` to run as many sequences as it is allowed.
    """

    fixed: int
    least: int
    wanted: int


def shortfall(total: int, reserved: int, claims: Sequence[Claim]) -> int:
    """Bytes that are missing for every engine to start on a GPU of `total` bytes, of which `reserved` are not theirs.

    0 when they fit.
    """
    needed = sum(claim.fixed + claim.least for claim in claims)
    return max(0, needed - _available(total, reserved))


def advised_shares(total: int, reserved: int, claims: Sequence[Claim]) -> list[float] | None:
    """A share for each claim, together with `reserved` at most all of the GPU; None when they cannot fit.

    Everybody gets what it needs to start. The rest is divided by what they want beyond that, also when it is more than
    they want: a larger cache keeps more prefixes.
    """
    if shortfall(total, reserved, claims):
        return None
    rest = _available(total, reserved) - sum(claim.fixed + claim.least for claim in claims)
    wishes = [max(claim.wanted - claim.least, 1) for claim in claims]
    shares = []
    for claim, wish in zip(claims, wishes, strict=True):
        start = Fraction(claim.fixed + claim.least, total)
        ideal = start + Fraction(rest * wish, total * sum(wishes))
        # Rounded down, but never below what the engine needs to start: the headroom has room for that thousandth.
        shares.append(max(math.floor(ideal * _STEP), math.ceil(start * _STEP)) / _STEP)
    return shares


def _available(total: int, reserved: int) -> int:
    return math.floor(total * (1 - HEADROOM)) - reserved
