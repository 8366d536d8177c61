from __future__ import annotations

import pytest

from tools.benchmark.spread import Spread


def test_the_median_and_the_extremes_of_repeats() -> None:
    spread = Spread.of([1500.0, 900.0, 1200.0])
    assert (spread.median, spread.low, spread.high) == (1200.0, 900.0, 1500.0)
    assert spread.values == (1500.0, 900.0, 1200.0)
    assert spread.text() == "1,200 (900-1,500)"
    assert spread.text(1) == "1,200.0 (900.0-1,500.0)"


def test_one_repeat_has_no_extremes() -> None:
    assert Spread.of([0.123]).text(2) == "0.12"


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="needs at least one repeat"):
        Spread.of([])
