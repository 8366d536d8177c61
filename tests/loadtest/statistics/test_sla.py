from __future__ import annotations

import pytest

from loadtest.options import SlaLimits
from loadtest.statistics.outcome import Outcome
from loadtest.statistics.results import TargetResult
from loadtest.statistics.sla import from_profile, is_good, judge, misses, parse_sla
from tests.loadtest.statistics.examples import answer, failure, result_of
from tools.spec.limits import Sla

LIMITS = SlaLimits(ttft_ms=500, tpot_ms=50, p99_e2e_s=4)


def target_of(*outcomes: Outcome, sla: SlaLimits) -> TargetResult:
    (target,) = result_of(*outcomes, sla=sla).targets
    return target


def texts(*outcomes: Outcome, sla: SlaLimits) -> list[str]:
    return [miss.text() for miss in misses(target_of(*outcomes, sla=sla), sla)]


# Where it comes from


def test_limits_are_read_from_a_text() -> None:
    assert parse_sla("ttft_ms=500, tpot_ms = 50,p99_e2e_s=4,min_qps=20") == SlaLimits(
        ttft_ms=500, tpot_ms=50, p99_e2e_s=4, min_qps=20
    )
    assert parse_sla("max_failures_percent=0.5") == SlaLimits(max_failures_percent=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'SLA "" is not a limit: write NAME=NUMBER with a NAME of ttft_ms, tpot_ms, p99_e2e_s, min_qps, '),
        ("ttft=500", 'SLA "ttft=500" is not a limit: write NAME=NUMBER with a NAME of ttft_ms, '),
        ("ttft_ms", 'SLA "ttft_ms" is not a limit'),
        ("ttft_ms=1,ttft_ms=2", 'SLA "ttft_ms" is given twice: give it once'),
        ("ttft_ms=fast", 'SLA "ttft_ms=fast": Input should be a valid number'),
        ("tpot_ms=0", 'SLA "tpot_ms=0": Input should be greater than 0: give a number of ms'),
        ("p99_e2e_s=inf", 'SLA "p99_e2e_s=inf": Input should be a finite number: give a number of s'),
        ("max_failures_percent=101", 'SLA "max_failures_percent=101": Input should be less than or equal to 100'),
    ],
)
def test_a_text_that_is_no_sla_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_sla(text)
    assert str(caught.value).startswith(message)


def test_the_profile_promises_requests_per_gpu() -> None:
    promise = Sla(ttft_ms=300, tpot_ms=30, p99_e2e_s=3, min_qps_per_gpu=20)
    assert from_profile(promise, gpus=2) == SlaLimits(ttft_ms=300, tpot_ms=30, p99_e2e_s=3, min_qps=40)
    assert from_profile(promise, gpus=0).min_qps == 20


# A single request


@pytest.mark.parametrize(
    ("outcome", "good"),
    [
        (answer(ttft=0.5, tpot_s=0.05, e2e=4.0), True),
        (answer(ttft=0.501), False),
        (answer(tpot_s=0.0501), False),
        (answer(e2e=4.001), False),
        (failure(), False),
        (answer(tpot_s=None, output_tokens=1), True),
        (answer(ttft=None, tpot_s=None, e2e=0.4), True),
        (answer(ttft=None, tpot_s=None, e2e=0.6), False),
    ],
)
def test_a_good_request_is_inside_every_limit(outcome: Outcome, good: bool) -> None:
    assert is_good(outcome, LIMITS) is good


def test_without_limits_every_whole_answer_is_good() -> None:
    assert is_good(answer(ttft=900, e2e=1000, tpot_s=100), SlaLimits())
    assert not is_good(failure(), SlaLimits())


# A run


def test_a_kept_promise_misses_nothing_and_every_figure_is_there() -> None:
    sla = LIMITS.model_copy(update={"min_qps": 1.0})
    target = target_of(answer(), answer(0.5, e2e=0.5), sla=sla)
    assert misses(target, sla) == ()
    assert [verdict.what for verdict in judge(target, sla)] == [
        "ttft_ms",
        "tpot_ms",
        "p99_e2e_s",
        "min_qps",
        "max_failures_percent",
    ]


def test_a_miss_says_which_figure_and_by_how_much() -> None:
    slow = answer(ttft=0.75, tpot_s=0.06, e2e=5.0)
    assert texts(slow, slow, sla=LIMITS) == [
        "ttft_ms: 750.1 ms, the limit is 500 ms (missed by 50 %)",
        "tpot_ms: 60.03 ms, the limit is 50 ms (missed by 20.1 %)",
        "p99_e2e_s: 5.001 s, the limit is 4 s (missed by 25 %)",
    ]


def test_ttft_is_judged_at_its_p95_and_end_to_end_at_its_p99() -> None:
    fast, slow = [answer()] * 95, [answer(ttft=2.0, e2e=9.0)]
    assert texts(*fast, *slow * 5, sla=SlaLimits(ttft_ms=500)) == []
    assert len(texts(*fast, *slow * 6, sla=SlaLimits(ttft_ms=500))) == 1
    assert texts(*fast * 2, *slow, sla=SlaLimits(p99_e2e_s=4)) == []
    assert len(texts(*fast, *slow, sla=SlaLimits(p99_e2e_s=4))) == 1


def test_a_figure_that_is_its_limit_keeps_it_though_percentiles_are_rounded_up() -> None:
    exactly = answer(ttft=0.5, tpot_s=0.05, e2e=4.0)
    target = target_of(exactly, sla=LIMITS)
    assert target.ttft_ms.p95 is not None
    assert target.ttft_ms.p95 > 500
    assert misses(target, LIMITS) == ()


def test_only_good_requests_count_for_the_least_rate() -> None:
    sla = SlaLimits(ttft_ms=500, min_qps=2, max_failures_percent=50)
    target = target_of(answer(), answer(1, ttft=0.6), failure(2), answer(3), sla=sla)
    assert "min_qps: 0.5 good requests/s, the limit is 2 good requests/s (missed by 75 %)" in [
        miss.text() for miss in misses(target, sla)
    ]


def test_failures_are_judged_even_when_the_limit_is_none() -> None:
    assert texts(answer(), failure(1), sla=SlaLimits()) == [
        "max_failures_percent: 50 %, the limit is 0 % (missed by 50 %)"
    ]
    assert texts(answer(), failure(1), sla=SlaLimits(max_failures_percent=40)) == [
        "max_failures_percent: 50 %, the limit is 40 % (missed by 25 %)"
    ]
    assert texts(answer(), failure(1), sla=SlaLimits(max_failures_percent=50)) == []


def test_an_answer_in_one_piece_shows_its_first_token_with_its_last() -> None:
    whole = answer(ttft=None, tpot_s=None, e2e=0.6, itl_s=())
    assert texts(whole, sla=LIMITS) == ["ttft_ms: 600.1 ms, the limit is 500 ms (missed by 20 %)"]


def test_where_nothing_was_measured_nothing_is_kept() -> None:
    sla = LIMITS.model_copy(update={"min_qps": 1.0})
    assert texts(failure(), sla=sla) == [
        "ttft_ms: nothing was measured, the limit is 500 ms",
        "tpot_ms: nothing was measured, the limit is 50 ms",
        "p99_e2e_s: nothing was measured, the limit is 4 s",
        "min_qps: 0 good requests/s, the limit is 1 good requests/s (missed by 100 %)",
        "max_failures_percent: 100 %, the limit is 0 % (missed by 100 %)",
    ]
