"""What a rung gains over another: ratios of repeats that were measured in the same turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from tools.benchmark.spread import Spread
from tools.reporting.figures import KINDS, Figure, LevelFigures

# Below this a median says nothing, however close together the repeats are.
LEAST_CHANGE: Final = 0.05

Direction = Literal["gain", "loss", "none"]


class Gain(BaseModel):
    """How many times better `figure` is at one level than on the rung `over`; below 1 it is worse.

    For latencies it is the other's by this one's, so that 2 always means twice as good. `gain` and `loss` need all
    repeats on one side of 1 and a median that is 5 % away from it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    over: str
    level: int
    figure: Figure
    ratio: Spread
    direction: Direction


def gains(above: Mapping[int, LevelFigures], below: Mapping[int, LevelFigures], over: str) -> Iterator[Gain]:
    """Every figure at every level that both rungs were measured at in the same repeat."""
    for level in sorted(above.keys() & below.keys()):
        for figure, kind in KINDS.items():
            after, before = above[level].by_repeat(figure), below[level].by_repeat(figure)
            shared = sorted(after.keys() & before.keys())
            if not shared or any(after[repeat] <= 0 or before[repeat] <= 0 for repeat in shared):
                continue
            ratio = Spread.of(
                [
                    after[repeat] / before[repeat] if kind.more_is_better else before[repeat] / after[repeat]
                    for repeat in shared
                ]
            )
            yield Gain(over=over, level=level, figure=figure, ratio=ratio, direction=direction_of(ratio))


def direction_of(ratio: Spread) -> Direction:
    """Whether repeats agree that something has become better, or worse."""
    if ratio.low > 1 and ratio.median >= 1 + LEAST_CHANGE:
        return "gain"
    if ratio.high < 1 and ratio.median <= 1 - LEAST_CHANGE:
        return "loss"
    return "none"
