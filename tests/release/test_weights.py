"""Weights of a route: whatever is given, they add up, and the others keep their proportions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.release.weights import heaviest_but, same, text_of, weights_with

splits = st.lists(st.integers(1, 1000), min_size=1, max_size=5)


@given(splits, st.integers(0, 1000))
def test_they_add_up_in_tenths_and_the_others_keep_their_proportions(parts: list[int], share: int) -> None:
    before = {f"llm_{number}:1": 100 * part / sum(parts) for number, part in enumerate(parts)}
    after = weights_with(before, {"new:1": share / 10})
    assert sum(round(weight * 10) for weight in after.values()) == 1000
    assert after["new:1"] == share / 10
    left = 100 - share / 10
    for name, weight in before.items():
        # A weight in tenths, of a part in tenths.
        assert abs(after.get(name, 0.0) - weight * left / 100) <= 0.1 + 0.1


@given(st.integers(0, 1000))
def test_going_up_and_back_gives_what_was(share: int) -> None:
    before = {"a:1": 100.0}
    there = weights_with(before, {"b:1": share / 10})
    if share < 1000:
        assert same(weights_with(there, {"b:1": 0.0}), before)


def test_several_can_be_given() -> None:
    assert weights_with({"a:1": 60.0, "b:1": 40.0}, {"c:1": 10.0, "d:1": 40.0}) == {
        "a:1": 30.0, "b:1": 20.0, "c:1": 10.0, "d:1": 40.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ({"a:1": 60.0, "b:1": 60.0}, r"^a:1 60 %, b:1 60 % are more than 100 % together$"),
        ({"a:1": 60.0}, r"^a:1 60 % leaves 40 % that no other target can take$"),
        ({"a:1": 0.0}, r"^no weight leaves 100 % that no other target can take$"),
    ],
)
def test_what_cannot_add_up_is_refused(weights: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        weights_with({"a:1": 100.0}, weights)


def test_the_heaviest_of_the_others_is_the_stable_one() -> None:
    assert heaviest_but({"a:1": 30.0, "b:1": 60.0, "c:1": 10.0}, "b:1") == "a:1"
    assert heaviest_but({"b:1": 100.0, "c:1": 0.0}, "b:1") == ""


def test_people_see_the_heaviest_first_and_no_zeros() -> None:
    assert text_of({"a:1": 2.5, "b:1": 97.5, "c:1": 0.0}) == "b:1 97.5 %, a:1 2.5 %"
