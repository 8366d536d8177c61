"""Confidence intervals: they cover what they should, and take repeats for what they are."""

from __future__ import annotations

import numpy as np
import pytest

from tools.reporting.bootstrap import Interval, Rows, change_interval, median_over_repeats


def median(rows: Rows) -> Rows:
    found: Rows = np.median(rows[..., 0], axis=-1)
    return found


def repeats(random: np.random.Generator, centre: float, *, requests: int = 40, between: float = 0.0) -> list[Rows]:
    """Three repeats of requests that scatter by a tenth; `between` is by how much repeats do."""
    return [random.normal(centre * (1 + random.normal(0, between)), centre / 10, size=(requests, 1)) for _ in range(3)]


def test_the_same_seed_gives_the_same_interval() -> None:
    random = np.random.default_rng(1)
    before, after = repeats(random, 100), repeats(random, 110)
    assert change_interval(before, after, median, 7) == change_interval(before, after, median, 7)
    assert change_interval(before, after, median, 7) != change_interval(before, after, median, 8)


def test_the_change_is_that_of_the_medians() -> None:
    before = [np.array([[10.0], [10.0]]), np.array([[20.0], [20.0]]), np.array([[12.0], [12.0]])]
    assert median_over_repeats(before, median) == 12.0
    found = change_interval(before, [rows * 1.5 for rows in before], median, 0)
    assert found.change == pytest.approx(50.0)
    assert found.low < 50 < found.high


@pytest.mark.slow
def test_it_covers_a_true_change_about_as_often_as_it_says() -> None:
    random, covered = np.random.default_rng(0), 0
    for trial in range(60):
        found = change_interval(repeats(random, 100), repeats(random, 120), median, trial)
        covered += found.low <= 20 <= found.high
    assert covered >= 52


@pytest.mark.slow
def test_no_change_is_rarely_one() -> None:
    random, false_alarms = np.random.default_rng(0), 0
    for trial in range(60):
        false_alarms += change_interval(repeats(random, 100), repeats(random, 100), median, trial).excludes_zero
    assert false_alarms <= 6


@pytest.mark.slow
def test_repeats_that_differ_widen_it_however_many_requests_they_have() -> None:
    random = np.random.default_rng(3)
    steady = change_interval(repeats(random, 100, requests=500), repeats(random, 100, requests=500), median, 0)
    unsteady = change_interval(
        repeats(random, 100, requests=500, between=0.2), repeats(random, 100, requests=500, between=0.2), median, 0
    )
    assert unsteady.high - unsteady.low > 3 * (steady.high - steady.low)


@pytest.mark.parametrize(("low", "high", "excludes"), [(1, 2, True), (-2, -1, True), (-1, 1, False), (0, 1, False)])
def test_zero_is_outside_or_not(low: float, high: float, excludes: bool) -> None:
    assert Interval(change=0.0, low=low, high=high).excludes_zero is excludes
