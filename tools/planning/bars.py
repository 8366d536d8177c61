"""One bar per engine and one for all of them: the same values for the terminal and for the PNG."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools.planning.engines import Kind
from tools.planning.plan import MemoryPlan

OTHERS: Final = "other programs"
FREE: Final = "free"

COLOURS: Final = {
    Kind.WEIGHTS.value: "#4c72b0",
    Kind.DRAFT.value: "#8172b3",
    Kind.ACTIVATIONS.value: "#dd8452",
    Kind.GRAPHS.value: "#937860",
    Kind.RUNTIME.value: "#8c8c8c",
    Kind.CONTEXT.value: "#6b6b6b",
    Kind.KV_CACHE.value: "#55a868",
    OTHERS: "#c44e52",
    FREE: "#e6e6e6",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a bar, in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Bar:
    """`segments` lie one after the other; what is left of the chart's width stays empty."""

    label: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars on one scale of `scale` bytes; `limit` is where the device's memory ends."""

    title: str
    limit: int
    scale: int
    bars: tuple[Bar, ...]

    @property
    def names(self) -> list[str]:
        """What occurs in the bars, in the order of COLOURS."""
        found = {segment.name for bar in self.bars for segment in bar.segments}
        return [name for name in COLOURS if name in found]


def chart_of(plan: MemoryPlan) -> Chart:
    """A bar for each engine, and below them all of them on the device, with what is free or too much."""
    engines = [
        Bar(engine.label, tuple(Segment(kind.value, engine.parts.get(kind.value, 0)) for kind in Kind))
        for engine in plan.engines
    ]
    sums = [Segment(kind.value, sum(engine.parts.get(kind.value, 0) for engine in plan.engines)) for kind in Kind]
    together = Bar("together", (Segment(OTHERS, plan.taken_bytes), *sums, Segment(FREE, max(0, plan.free_bytes))))
    bars = [Bar(bar.label, tuple(segment for segment in bar.segments if segment.size)) for bar in (*engines, together)]
    scale = plan.total_bytes + max(0, -plan.free_bytes)
    return Chart(f"{plan.profile} on {plan.device}", plan.total_bytes, scale, tuple(bars))


def cells(sizes: Sequence[int], scale: int, width: int) -> list[int]:
    """Cells of `width` for each size, so that each ends within half a cell of where it belongs, and together they
    take what their sum takes.
    """
    ends = [0]
    position = 0
    for size in sizes:
        position += size
        ends.append(round(position * width / scale))
    return [end - start for start, end in itertools.pairwise(ends)]
