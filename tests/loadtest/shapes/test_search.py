"""The step search against servers whose capacity is known."""

from __future__ import annotations

import pytest

from loadtest.shapes.search import PRECISION, StepSearch, step_seconds


def run(search: StepSearch, capacity: float) -> list[float]:
    """Search on a server that keeps its promises up to `capacity`; returns what was tried."""
    tried = []
    while (rate := search.rate) is not None:
        tried.append(rate)
        search.judge(inside=rate <= capacity)
    return tried


@pytest.mark.parametrize("capacity", [1.0, 1.3, 7.77, 42.0, 99.0])
def test_it_closes_in_on_the_capacity(capacity: float) -> None:
    search = StepSearch(lowest=1.0, highest=100.0)
    tried = run(search, capacity)

    assert search.inside is not None
    assert search.outside is not None
    assert search.inside <= capacity < search.outside <= search.inside * (1 + PRECISION)
    assert len(tried) <= 13


def test_it_tries_nothing_outside_its_bounds() -> None:
    search = StepSearch(lowest=3.0, highest=50.0)
    tried = run(search, 1e9)

    assert tried == [3.0, 6.0, 12.0, 24.0, 48.0, 50.0]
    assert (search.inside, search.outside) == (50.0, None)


def test_it_ends_at_once_when_not_even_the_lowest_rate_is_inside() -> None:
    search = StepSearch(lowest=3.0, highest=50.0)

    assert run(search, 1.0) == [3.0]
    assert (search.inside, search.outside) == (None, 3.0)


def test_bounds_that_are_the_same_are_one_step() -> None:
    search = StepSearch(lowest=4.0, highest=4.0)

    assert run(search, 10.0) == [4.0]
    assert search.inside == 4.0


def test_a_search_that_is_over_takes_no_verdict() -> None:
    search = StepSearch(lowest=3.0, highest=50.0)
    search.judge(inside=False)

    with pytest.raises(ValueError, match="the search is over"):
        search.judge(inside=True)


def test_a_slow_step_lasts_long_enough_for_its_percentiles() -> None:
    assert step_seconds(100.0) == 10.0
    assert step_seconds(0.5) * 0.5 == 40
