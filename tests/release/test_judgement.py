"""Judgement: what is caught, what is let go, how often it is wrong, and what it says."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.release.windows import counts
from tools.release.judgement import Judgement, Verdict, judge, looks_at
from tools.release.observation import Counts
from tools.release.plan import Margins, Plan

PLAN = Plan(steps=(1.0, 100.0), min_requests=50)


def verdicts(judgement: Judgement) -> dict[str, Verdict]:
    return {finding.criterion: finding.verdict for finding in judgement.findings}


def latencies(seed: int, count: int, slower: float = 1.0, spread: float = 0.4) -> list[float]:
    generator = random.Random(seed)
    return [slower * generator.lognormvariate(-3, spread) for _ in range(count)]


def test_the_same_is_fine_by_every_criterion() -> None:
    found = judge(PLAN, counts(latencies(1, 100)), counts(latencies(2, 1000)), 1)
    assert set(verdicts(found).values()) == {Verdict.FINE}
    assert found.verdict is Verdict.FINE
    assert (found.missing_canary, found.missing_stable) == (0, 0)


def test_it_says_how_many_requests_are_missing() -> None:
    found = judge(PLAN, counts(latencies(1, 8)), counts(latencies(2, 43)), 1)
    assert found.verdict is Verdict.TOO_FEW
    assert (found.missing_canary, found.missing_stable) == (42, 7)
    assert [finding.margin_unit for finding in found.findings] == ["points", "%", "%", "%", "points"]


def test_without_any_request_there_are_too_few() -> None:
    assert judge(PLAN, Counts(), Counts(), 1).verdict is Verdict.TOO_FEW


def test_a_version_that_fails_everything_is_worse_after_five_requests() -> None:
    found = judge(PLAN, counts([], failed=5), counts(latencies(2, 60)), 1)
    assert verdicts(found)["error rate"] is Verdict.WORSE
    assert found.verdict is Verdict.WORSE
    assert found.of(Verdict.WORSE).startswith(
        "error rate (internal 5) 100 % against 0 %: +100 points, with confidence +"
    )
    assert found.of(Verdict.WORSE).endswith(" points or more; allowed are +1 points")


def test_a_version_that_fails_everything_is_caught_though_the_stable_one_had_no_requests() -> None:
    alone = counts(latencies(2, 60))
    found = judge(PLAN, counts([], failed=5), Counts(), 1, alone)
    assert verdicts(found)["error rate"] is Verdict.WORSE
    found = judge(PLAN, counts(latencies(1, 100)), Counts(), 1, alone)
    assert found.verdict is Verdict.TOO_FEW, "a step is not left by that comparison"
    assert judge(PLAN, counts([], failed=5), counts([], failed=60), 1, alone).verdict is not Verdict.WORSE


def test_requests_that_clients_cancel_are_nobodys_fault() -> None:
    found = judge(PLAN, counts(latencies(1, 100), cancelled=90), counts(latencies(2, 100)), 1)
    assert found.verdict is Verdict.FINE


def test_errors_that_the_stable_version_has_too_are_fine() -> None:
    found = judge(PLAN, counts(latencies(1, 90), failed=10), counts(latencies(2, 900), failed=100), 1)
    assert verdicts(found)["error rate"] is Verdict.FINE


def test_a_few_more_errors_than_allowed_want_more_requests() -> None:
    few = judge(PLAN, counts(latencies(1, 98), failed=2), counts(latencies(2, 1000)), 1)
    assert verdicts(few)["error rate"] is Verdict.UNSURE
    many = judge(PLAN, counts(latencies(1, 9800), failed=400), counts(latencies(2, 1000)), 1)
    assert verdicts(many)["error rate"] is Verdict.WORSE


@pytest.mark.parametrize("criterion", ["TTFT p95", "ITL p95"])
def test_twice_as_slow_is_worse(criterion: str) -> None:
    slow, stable = latencies(1, 200, slower=2.5), latencies(2, 500)
    window = counts(slow) if criterion == "TTFT p95" else counts(latencies(1, 200), itl=slow)
    reference = counts(stable) if criterion == "TTFT p95" else counts(latencies(2, 500), itl=stable)
    found = judge(PLAN, window, reference, 2)
    assert {name for name, verdict in verdicts(found).items() if verdict is Verdict.WORSE} == {criterion}
    assert f"{criterion} 0." in found.of(Verdict.WORSE)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.floats(1.0, 1.25), st.integers(1, 8))
@settings(max_examples=60)
def test_slower_within_the_margin_is_fine_when_the_spread_is_the_same(seed: int, slower: float, look: int) -> None:
    stable = latencies(seed, 400)
    found = judge(PLAN, counts([slower * value for value in stable]), counts(stable), look)
    assert verdicts(found)["TTFT p95"] is Verdict.FINE


def test_steps_of_one_stream_count_once() -> None:
    # 60 streams of 1000 steps are 60 independent values: two of them, slow from end to end, prove nothing.
    stable = counts(latencies(2, 60), itl=[0.02] * 60_000)
    canary = counts(latencies(1, 60), itl=[0.02] * 56_000 + [0.2] * 4000)
    assert verdicts(judge(PLAN, canary, stable, 1))["ITL p95"] is Verdict.UNSURE


def test_without_streams_latency_is_not_judged_and_that_is_said() -> None:
    whole = counts(latencies(1, 80)).model_copy(update={"ttft": Counts().ttft, "itl": Counts().itl})
    found = judge(PLAN, whole, whole, 1)
    assert found.verdict is Verdict.FINE
    assert "TTFT p95: not judged, the canary had no streamed request" in found.of(Verdict.ABSENT)


def test_streams_of_one_token_each_have_no_itl_to_judge() -> None:
    one_token = counts(latencies(1, 80)).model_copy(update={"itl": Counts().itl})
    found = judge(PLAN, one_token, one_token, 1)
    assert found.verdict is Verdict.FINE
    assert found.of(Verdict.ABSENT) == "ITL p95: not judged, no stream of the canary had a second token"
    assert [finding.margin for finding in found.findings if finding.verdict is Verdict.ABSENT] == [25.0]
    assert verdicts(found)["TTFT p95"] is Verdict.FINE


def test_steps_of_a_few_streams_count_as_a_few() -> None:
    few = counts(latencies(1, 80), itl=[0.02] * 49)
    assert verdicts(judge(PLAN, few, counts(latencies(2, 80)), 1))["ITL p95"] is Verdict.TOO_FEW


def test_a_stable_version_without_streams_is_nothing_to_wait_for() -> None:
    stable = counts(latencies(1, 80)).model_copy(update={"ttft": Counts().ttft, "itl": Counts().itl})
    found = judge(PLAN, counts(latencies(2, 80)), stable, 1)
    assert found.verdict is Verdict.FINE
    assert "TTFT p95: not judged, the stable version had no streamed request" in found.of(Verdict.ABSENT)


def test_the_highest_confidence_that_a_plan_may_ask_for_can_be_judged() -> None:
    plan = PLAN.model_copy(update={"confidence": math.nextafter(1.0, 0.0)})
    assert judge(plan, counts([], failed=1000), counts(latencies(2, 1000)), 40).verdict is Verdict.WORSE
    assert judge(plan, counts(latencies(1, 100)), counts(latencies(2, 1000)), 40).verdict is Verdict.FINE


@pytest.mark.parametrize("tokens", [[48] * 100, [4] * 100])
def test_answers_of_another_length_are_worse_both_ways(tokens: list[int]) -> None:
    found = judge(PLAN, counts(latencies(1, 100), tokens=tokens), counts(latencies(2, 400)), 1)
    assert verdicts(found)["output length"] is Verdict.WORSE


def test_empty_answers_are_worse() -> None:
    found = judge(PLAN, counts(latencies(1, 100), tokens=[0] * 100), counts(latencies(2, 400)), 1)
    assert verdicts(found)["output length"] is Verdict.WORSE


def test_answers_that_end_for_other_reasons_are_worse() -> None:
    found = judge(PLAN, counts(latencies(1, 100), stopped=20), counts(latencies(2, 400), stopped=320), 1)
    assert verdicts(found)["finish reasons"] is Verdict.WORSE
    assert "finish reasons (" in found.of(Verdict.WORSE)


def test_looks_double() -> None:
    assert [looks_at(look) for look in (1, 2, 3, 4)] == [5, 10, 20, 40]


def walk(generator: random.Random, canary_slower: float, canary_failing: float, requests: int = 640) -> int:
    """Requests after which a step of a canary with that much is aborted; 0 if it never is."""
    times = [[], []]
    failed = [0, 0]
    look = 1
    for number in range(1, requests + 1):
        for side, (slower, failing) in enumerate(((canary_slower, canary_failing), (1.0, 0.02))):
            if generator.random() < failing:
                failed[side] += 1
            else:
                times[side].append(slower * generator.lognormvariate(-3, 0.4))
        if number == looks_at(look):
            canary, stable = (counts(times[side], failed=failed[side]) for side in (0, 1))
            if judge(PLAN, canary, stable, look).verdict is Verdict.WORSE:
                return number
            look += 1
    return 0


@pytest.mark.slow
def test_a_version_that_is_no_worse_is_turned_away_no_more_often_than_the_plan_allows() -> None:
    generator = random.Random(7)
    aborted = sum(walk(generator, 1.0, 0.02) > 0 for _ in range(200))
    # 5 % of 200 are 10, and four standard deviations more would be 22.
    assert aborted <= 10


@pytest.mark.slow
def test_a_version_at_its_margins_is_turned_away_no_more_often_than_the_plan_allows() -> None:
    generator = random.Random(8)
    assert sum(walk(generator, 1.25, 0.03) > 0 for _ in range(200)) <= 10


@pytest.mark.slow
@pytest.mark.parametrize(("slower", "failing"), [(2.5, 0.02), (1.0, 0.2)])
def test_a_version_that_is_much_worse_is_caught_every_time(slower: float, failing: float) -> None:
    generator = random.Random(9)
    assert all(walk(generator, slower, failing) > 0 for _ in range(40))


def test_a_criterion_can_be_turned_off_by_a_wide_margin() -> None:
    wide = PLAN.model_copy(update={"margins": Margins(ttft_p95_percent=1000.0)})
    found = judge(wide, counts(latencies(1, 200, slower=5)), counts(latencies(2, 200)), 1)
    assert verdicts(found)["TTFT p95"] is Verdict.FINE
