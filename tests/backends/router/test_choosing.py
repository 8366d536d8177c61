"""Choosing by weight, by key and by rule, as statistics and as properties."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tools.backends.router.choosing import Facts, choose, pick_random, pick_sticky, score, without_own
from tools.wire.release import Condition, Release, Route, Shadow, Target

PICKS = 20_000
# The quantile 0.9999 of the chi-square distribution, by degrees of freedom: one seed in ten thousand is beyond it.
CHI_SQUARE = {1: 15.14, 2: 18.42, 3: 21.11, 4: 23.51}
WEIGHTS = [[990, 10], [999, 1], [500, 300, 150, 50], [250, 250, 250, 250], [1000, 0], [333, 333, 334, 0]]


def targets(weights: Sequence[int]) -> list[Target]:
    return [Target(f"llm_{number}", 1, weight) for number, weight in enumerate(weights)]


def release(*routes: Route) -> Release:
    return Release([*routes, Route("default", targets([1000]))])


def facts(prompt_tokens: int = 0, **parameters: str) -> Facts:
    return Facts(parameters, prompt_tokens)


def assert_by_weight(picked: Counter[str], of: Sequence[Target]) -> None:
    weighted = [target for target in of if target.weight]
    assert set(picked) <= {target.model for target in weighted}, "a target without a weight was picked"
    expected = {target.model: PICKS * target.weight / 1000 for target in weighted}
    statistic = sum((picked[model] - count) ** 2 / count for model, count in expected.items())
    if len(weighted) > 1:
        assert statistic < CHI_SQUARE[len(weighted) - 1], f"{picked} for {expected}"


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
def test_keys_are_spread_by_weight(weights: list[int]) -> None:
    of = targets(weights)
    assert_by_weight(Counter(pick_sticky(of, f"user-{number}").model for number in range(PICKS)), of)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_requests_without_a_key_are_spread_by_weight(weights: list[int]) -> None:
    of, draw = targets(weights), random.Random(7).random
    assert_by_weight(Counter(pick_random(of, draw()).model for _ in range(PICKS)), of)


@pytest.mark.parametrize("drawn", [0.0, 0.5, math.nextafter(1.0, 0.0)])
def test_a_target_without_a_weight_is_never_picked(drawn: float) -> None:
    of = [Target("none", 1, 0), Target("all", 1, 1000), Target("last", 1, 0)]
    assert pick_random(of, drawn).model == "all"
    assert pick_sticky(of, str(drawn)).model == "all"


# Properties of stickiness

weightings = st.lists(st.integers(0, 1000), min_size=2, max_size=6).filter(any)
keys = st.text(max_size=20)


@given(weightings, keys, st.randoms(use_true_random=False))
def test_a_key_sticks_whatever_the_order(weights: list[int], key: str, shuffle: random.Random) -> None:
    of = targets(weights)
    shuffled = list(of)
    shuffle.shuffle(shuffled)
    assert pick_sticky(shuffled, key) == pick_sticky(of, key)


@given(weightings, keys, st.data())
def test_a_weight_that_grows_moves_keys_to_that_target_only(weights: list[int], key: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(weights) - 1))
    grown = [*weights]
    grown[index] += data.draw(st.integers(1, 1000))
    before, after = pick_sticky(targets(weights), key), pick_sticky(targets(grown), key)
    assert after.model in (before.model, f"llm_{index}")


@given(weightings, keys, st.data())
def test_a_weight_that_shrinks_moves_only_keys_that_it_had(weights: list[int], key: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(weights) - 1))
    shrunk = [*weights]
    shrunk[index] = data.draw(st.integers(0, weights[index]))
    assume(any(shrunk))
    before, after = pick_sticky(targets(weights), key), pick_sticky(targets(shrunk), key)
    assert before.model in (after.model, f"llm_{index}")


@pytest.mark.slow
def test_a_canary_takes_no_more_users_than_its_weight_grew_by() -> None:
    users = [f"user-{number}" for number in range(PICKS)]
    steps = [10, 50, 250, 500, 1000]
    had: set[str] = set()
    for weight in steps:
        of = targets([1000 - weight, weight])
        has = {user for user in users if pick_sticky(of, user).model == "llm_1"}
        assert had <= has, "a user who had the canary lost it while its weight grew"
        assert len(has) == pytest.approx(PICKS * weight / 1000, rel=0.25)
        had = has


def test_scores_do_not_change() -> None:
    """Users would change sides with an update of the router."""
    assert score(Target("llm_bf16", 1, 990), "user-1") == pytest.approx(1289.0332, abs=1e-3)
    assert score(Target("llm_awq", 2, 10), "\ud800 用户") == pytest.approx(48.3875, abs=1e-3)


@given(st.integers(1, 1000), keys)
def test_a_score_is_finite_and_more_than_nothing(weight: int, key: str) -> None:
    assert 0 < score(Target("m", 1, weight), key) < math.inf


# Routes

GOLD = Route("gold", [Target("gold", 1, 1000)], condition=Condition(parameters={"tier": ["gold", "platinum"]}))
LONG = Route("long", [Target("long", 1, 1000)], condition=Condition(over=100, under=200))
TEAM = Route("team", [Target("team", 1, 1000)], condition=Condition(headers={"x-team": ["red"]}))
BOTH = Route("both", [Target("both", 1, 1000)], condition=Condition(parameters={"a": ["1"], "b": ["2"]}, under=5))


@pytest.mark.parametrize(
    ("given_facts", "expected"),
    [
        (facts(), "default"),
        (facts(tier="gold"), "gold"),
        (facts(tier="platinum"), "gold"),
        (facts(tier="silver"), "default"),
        (facts(100), "default"),
        (facts(101), "long"),
        (facts(199), "long"),
        (facts(200), "default"),
        (facts(150, tier="gold"), "gold"),
        (Facts({"X-Team": "red"}, 0), "team"),
        (Facts({"x-team": "blue"}, 0), "default"),
        (facts(4, a="1", b="2"), "both"),
        (facts(4, a="1"), "default"),
        (facts(5, a="1", b="2"), "default"),
    ],
)
def test_the_first_route_that_matches_takes_the_request(given_facts: Facts, expected: str) -> None:
    choice = choose(release(GOLD, LONG, TEAM, BOTH), given_facts, lambda: 0.0)
    assert choice.route.name == expected


def test_fallbacks_follow_the_picked_target_without_it() -> None:
    route = Route("default", targets([500, 500]), fallback=[*targets([0, 0]), Target("spare", 3)])
    picked = {choose(Release([route]), facts(), draw).targets for draw in (lambda: 0.0, lambda: 0.9)}
    assert {tuple(target.model for target in chosen) for chosen in picked} == {
        ("llm_0", "llm_1", "spare"),
        ("llm_1", "llm_0", "spare"),
    }


def test_a_request_sticks_by_the_parameter_that_its_route_names() -> None:
    of = targets([500, 500])
    sticky = Release([Route("default", of, sticky="session")])
    chosen = choose(sticky, facts(session="s-1", user="u"), lambda: 0.0)
    assert chosen.key == "s-1"
    assert chosen.targets[0] == pick_sticky(of, "s-1")
    assert choose(sticky, facts(user="u"), lambda: 0.0).key == ""
    without = [choose(sticky, facts(), draw).targets[0].model for draw in (lambda: 0.0, lambda: 0.99)]
    assert without == ["llm_0", "llm_1"], "without its parameter a request is spread at random"


def test_a_shadow_gets_its_share() -> None:
    route = Route("default", targets([1000]), shadow=Shadow("shadow", 1, 125, 16))
    draw = random.Random(3).random
    copies = sum(choose(Release([route]), facts(), draw).shadow is not None for _ in range(PICKS))
    expected = PICKS * 0.125
    assert (copies - expected) ** 2 / expected + (copies - expected) ** 2 / (PICKS - expected) < CHI_SQUARE[1]


def test_what_the_release_reads_is_not_the_engines() -> None:
    sticky = Route("sticky", targets([1000]), sticky="customer", condition=Condition(over=3))
    left = without_own(
        release(GOLD, TEAM, sticky), {"tier": "gold", "X-Team": "red", "customer": "c", "temperature": 0.5}
    )
    assert left == {"temperature": 0.5}
