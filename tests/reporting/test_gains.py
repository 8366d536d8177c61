"""Ratios between rungs, and what counts as a gain."""

from __future__ import annotations

import pytest

from tests.reporting.examples import cell
from tools.benchmark.spread import Spread
from tools.reporting.figures import LevelFigures, level_figures
from tools.reporting.gains import direction_of, gains


def level(label: str, speeds: dict[int, tuple[float, float, float]]) -> dict[int, LevelFigures]:
    found = level_figures([cell(label, 8, repeat, of_repeat) for repeat, of_repeat in speeds.items()])
    assert found is not None
    return {8: found}


def test_more_tokens_and_less_latency_are_both_above_one() -> None:
    below = level("v2", {1: (100.0, 200.0, 80.0)})
    above = level("v3", {1: (150.0, 100.0, 80.0)})
    found = {gain.figure: gain.ratio.median for gain in gains(above, below, "v2")}
    assert found == {"tokens_per_s": 1.5, "ttft_ms": 2.0, "tpot_ms": 1.0, "e2e_ms": 1400 / 1300}


def test_repeats_of_the_same_turn_are_compared() -> None:
    # The machine was slow in turn 2: both rungs were, and the ratio does not show it.
    below = level("v2", {1: (100.0, 200.0, 80.0), 2: (50.0, 400.0, 160.0)})
    above = level("v3", {2: (75.0, 400.0, 160.0), 1: (150.0, 200.0, 80.0), 3: (900.0, 1.0, 1.0)})
    ratio = next(gain.ratio for gain in gains(above, below, "v2") if gain.figure == "tokens_per_s")
    assert ratio.values == (1.5, 1.5)


def test_levels_and_repeats_that_only_one_rung_has_give_no_gain() -> None:
    below = level("v2", {1: (100.0, 200.0, 80.0)})
    assert list(gains(level("v3", {2: (150.0, 100.0, 80.0)}), below, "v2")) == []
    assert list(gains({}, below, "v2")) == []


@pytest.mark.parametrize(
    ("values", "direction"),
    [
        ([1.10, 1.30, 1.20], "gain"),
        ([1.06], "gain"),
        ([1.04, 1.03, 1.05], "none"),  # too little
        ([0.99, 1.30, 1.20], "none"),  # not in every repeat
        ([0.80, 0.90, 0.85], "loss"),
        ([0.97, 0.98, 0.96], "none"),
        ([0.80, 1.01, 0.85], "none"),
        ([1.0, 1.0, 1.0], "none"),
    ],
)
def test_a_gain_is_one_in_every_repeat_and_five_percent(values: list[float], direction: str) -> None:
    assert direction_of(Spread.of(values)) == direction
