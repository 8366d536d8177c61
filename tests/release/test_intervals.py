"""Confidence limits: values from the papers, and that they hold as often as they say."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.release.windows import histogram
from tools.release.intervals import (
    critical_value,
    least_quantile_ratio,
    least_rise,
    quantile,
    relative_error,
    wilson,
)
from tools.release.observation import Histogram

Z95_TWO_SIDED = critical_value(0.025)

counted = st.integers(0, 400).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def test_the_critical_value_of_5_percent() -> None:
    assert critical_value(0.05) == pytest.approx(1.6449, abs=1e-4)


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_wilson_gives_the_limits_of_newcombes_table(successes: int, total: int, low: float, high: float) -> None:
    # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
    assert wilson(successes, total, Z95_TWO_SIDED) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "least"),
    [((56, 70), (48, 80), 0.0524), ((9, 10), (3, 10), 0.1705), ((5, 56), (0, 29), -0.0381)],
)
def test_the_rise_gives_the_limits_of_newcombes_table(
    first: tuple[int, int], second: tuple[int, int], least: float
) -> None:
    # Newcombe, "Interval estimation for the difference between independent proportions", 1998, table II, method 10.
    found = least_rise((first[0], second[0]), (first[1], second[1]), Z95_TWO_SIDED)
    assert found == pytest.approx(least, abs=1e-4)


@given(counted, st.floats(0.1, 5))
def test_a_share_lies_within_its_limits(count: tuple[int, int], z: float) -> None:
    low, high = wilson(*count, z)
    share = count[0] / count[1] if count[1] else 0.5
    assert 0 <= low <= share <= high <= 1


@given(counted, counted, st.floats(0.1, 5))
def test_the_least_rise_is_no_more_than_the_rise(one: tuple[int, int], two: tuple[int, int], z: float) -> None:
    first, second = (count / total if total else 0 for count, total in (one, two))
    assert least_rise((one[0], two[0]), (one[1], two[1]), z) <= first - second + 1e-9


def test_a_quantile_is_linear_within_its_bucket() -> None:
    # 10 values in (1, 2], 10 in (2, 4].
    values = Histogram(bounds=(1.0, 2.0, 4.0), counts=(0, 10, 10, 0), sum=45)
    assert quantile(values, 0.25) == 1.5
    assert quantile(values, 0.5) == 2.0
    assert quantile(values, 0.95) == pytest.approx(3.8)


def test_a_quantile_above_all_bounds_is_the_highest_of_them_and_none_without_values() -> None:
    assert quantile(Histogram(bounds=(1.0, 2.0), counts=(1, 0, 99), sum=990), 0.95) == 2.0
    assert quantile(Histogram(bounds=(1.0, 2.0), counts=(0, 0, 0), sum=0), 0.95) is None


@given(st.lists(st.floats(0.0005, 900), min_size=1, max_size=80), st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_the_value_of_its_rank(values: list[float], share: float) -> None:
    binned = histogram(values)
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    low, high = next(
        binned.edges(index)
        for index in range(len(binned.counts))
        if binned.edges(index)[0] < exact <= binned.edges(index)[1]
    )
    found = quantile(binned, share)
    assert found is not None
    assert low <= found <= high


@given(
    st.lists(st.floats(0.002, 50), min_size=1, max_size=60),
    st.floats(0, 1),
    st.floats(0.5, 4),
)
def test_what_is_within_a_margin_is_never_found_beyond_it_by_the_buckets_alone(
    values: list[float], margin: float, z: float
) -> None:
    slower = [value * (1 + margin) for value in values]
    looks, least = least_quantile_ratio(histogram(slower), histogram(values), 0.95, (len(values), len(values)), z)
    assert least <= looks <= (1 + margin) * (1 + 1e-9)


def test_twice_as_slow_is_found_with_confidence() -> None:
    generator = random.Random(1)
    stable = [generator.lognormvariate(-3, 0.3) for _ in range(400)]
    canary = [2.2 * generator.lognormvariate(-3, 0.3) for _ in range(400)]
    looks, least = least_quantile_ratio(histogram(canary), histogram(stable), 0.95, (400, 400), critical_value(0.005))
    assert 1.25 < least <= looks <= 2.6


def test_without_an_edge_to_hold_on_to_nothing_is_slower() -> None:
    fastest, beyond = histogram([0.0001] * 100), histogram([1e6] * 100)
    assert least_quantile_ratio(fastest, fastest, 0.95, (100, 100), 2.0) == (0.0, 0.0)
    assert least_quantile_ratio(beyond, beyond, 0.95, (100, 100), 2.0) == (0.0, 0.0)


@given(st.lists(st.floats(1, 150_000), min_size=2, max_size=60))
def test_the_error_of_a_mean_is_never_too_small(values: list[float]) -> None:
    mean = sum(values) / len(values)
    exact = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)) / mean
    bounds = (1.0, 10.0, 100.0, 1000.0, 10_000.0, 150_000.0)
    assert relative_error(histogram(values, bounds)) >= exact * (1 - 1e-9)


def test_one_value_says_nothing_about_the_error_of_a_mean() -> None:
    assert relative_error(histogram([5.0])) == math.inf
    assert relative_error(histogram([0.0, 0.0])) == math.inf
