"""Medians and 90th percentiles are those that the file states."""

from __future__ import annotations

import statistics
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loadtest.workloads.distribution import Between, Count, Length, LogNormal

LENGTH: TypeAdapter[LogNormal] = TypeAdapter(Length)
COUNT: TypeAdapter[Between] = TypeAdapter(Count)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(10, 2000), st.floats(1.2, 6.0), st.integers(0, 2**32))
def test_median_and_p90_of_what_is_drawn(median: int, spread: float, seed: int) -> None:
    length = LogNormal(median=float(median), p90=median * spread, max=median * spread * 2)
    random = Random(seed)
    drawn = [length.draw_tokens(random) for _ in range(5000)]
    # A fifth of ln(p90 / median) is ten standard errors of the 90th percentile of 5000 draws, and more of the median's.
    factor = spread**0.2
    assert median / factor - 1 <= statistics.median(drawn) <= median * factor + 1
    p90 = statistics.quantiles(drawn, n=10)[-1]
    assert median * spread / factor - 1 <= p90 <= median * spread * factor + 1


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 2**32))
def test_bounds_hold(low: int, second: int, third: int, fourth: int, seed: int) -> None:
    length = LogNormal(min=low, median=low + second, p90=low + second + third, max=low + second + third + fourth)
    random = Random(seed)
    assert all(length.min <= length.draw_tokens(random) <= length.most_tokens for _ in range(100))


@given(st.integers(1, 10**6), st.integers(0, 2**32))
def test_a_number_is_exactly_that_length(tokens: int, seed: int) -> None:
    length = LENGTH.validate_python(tokens)
    assert {length.draw_tokens(Random(seed + shift)) for shift in range(5)} == {tokens} == {length.most_tokens}


def test_turns_are_a_number_or_a_range() -> None:
    assert COUNT.validate_python(3) == Between(min=3, max=3)
    drawn = {COUNT.validate_python({"min": 2, "max": 4}).draw(Random(seed)) for seed in range(100)}
    assert drawn == {2, 3, 4}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "a fixed length is a whole number from 1 on, not 0"),
        (2.5, "a fixed length is a whole number from 1 on, not 2.5"),
        ({"median": 9, "p90": 5, "max": 20}, "min 0, median 9, p90 5 and max 20 must not descend"),
        ({"median": 9, "p90": 30, "max": 20}, "min 0, median 9, p90 30 and max 20 must not descend"),
        ({"median": 9, "p09": 30, "max": 20}, 'unknown key "p09": did you mean "p90"?'),
    ],
)
def test_a_length_that_is_none(value: object, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        LENGTH.validate_python(value)
    assert [error["msg"] for error in caught.value.errors()] == [message]


def test_a_range_that_is_none() -> None:
    with pytest.raises(ValidationError, match="min 4 is over max 2"):
        COUNT.validate_python({"min": 4, "max": 2})
