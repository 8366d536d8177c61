from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.planning.examples import BASELINE, ENGINE
from tools.planning.bars import COLOURS, cells, chart_of
from tools.planning.devices import Device
from tools.planning.engines import Kind
from tools.planning.plan import plan_memory
from tools.planning.units import GIB


def gpu(gibibytes: int, taken: int = 0) -> Device:
    return Device("a GPU", "cuda", gibibytes * GIB, taken * GIB)


def test_every_kind_of_memory_has_a_colour() -> None:
    assert {kind.value for kind in Kind} < set(COLOURS)


def test_a_bar_for_each_engine_and_one_for_all() -> None:
    chart = chart_of(plan_memory("p", [ENGINE, BASELINE], gpu(80, taken=2)))
    assert [bar.label for bar in chart.bars] == ["llm_bf16:1", "llm_baseline:1", "together"]
    assert chart.title == "p on a GPU"
    names = [segment.name for segment in chart.bars[-1].segments]
    assert (names[0], names[-1]) == ("other programs", "free")


def test_the_whole_bar_is_the_device() -> None:
    chart = chart_of(plan_memory("p", [ENGINE], gpu(80)))
    assert sum(segment.size for segment in chart.bars[-1].segments) == chart.limit == chart.scale == 80 * GIB


def test_what_is_too_much_goes_past_the_limit() -> None:
    chart = chart_of(plan_memory("p", [ENGINE, replace(ENGINE, share=0.9)], gpu(80)))
    whole = sum(segment.size for segment in chart.bars[-1].segments)
    assert whole == chart.scale > chart.limit == 80 * GIB
    assert "free" not in chart.names


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=9), st.integers(1, 200))
def test_cells_fill_the_width_and_are_never_negative(sizes: list[int], width: int) -> None:
    counts = cells([*sizes, 1], sum(sizes) + 1, width)
    assert sum(counts) == width
    assert min(counts) >= 0
