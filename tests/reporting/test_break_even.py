"""Where the curve of tokens/s with drafts over without crosses 1."""

from __future__ import annotations

import pytest

from tests.reporting.examples import report
from tools.reporting.break_even import crossing, throughput_ratios


def test_the_crossing_lies_between_its_levels_on_the_logarithm_of_the_streams() -> None:
    at, low, high = crossing({1: 1.5, 16: 1.2, 64: 0.8}) or (0.0, 0, 0)
    assert (low, high) == (16, 64)
    # Half of the way down, so half of the way from 16 to 64 in factors.
    assert at == pytest.approx(32)
    assert crossing({64: 0.8, 1: 1.5, 16: 1.0}) == (pytest.approx(16), 16, 64)


@pytest.mark.parametrize("ratios", [{}, {1: 1.2}, {1: 1.2, 16: 1.1}, {1: 0.9, 16: 0.8}, {1: 0.9, 16: 1.1}])
def test_a_curve_that_never_falls_below_1_has_none(ratios: dict[int, float]) -> None:
    assert crossing(ratios) is None


def test_drafts_are_held_against_the_same_weights_without() -> None:
    v4 = report().rungs[-1]
    assert list(dict.fromkeys(gain.over for gain in v4.gains)) == ["v3", "v2"]
    ratios = throughput_ratios(v4.gains)
    assert list(ratios) == [1, 8, 32]
    assert ratios[1].median == pytest.approx(30 / 19)
    assert throughput_ratios(()) == {}
