from __future__ import annotations

import pytest

from loadtest.options import SlaLimits
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.timeline import Second
from tests.loadtest.statistics.examples import START, Clock, answer, failure, options, run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(options("llm", "other"), SlaLimits(ttft_ms=500), started_at=START, clock=clock)


def test_a_request_counts_in_the_second_in_which_it_ended(ledger: Ledger, clock: Clock) -> None:
    run(ledger, clock, answer(0.5, ttft=0.1, e2e=2.0), answer(2.6, ttft=0.9, e2e=0.95), failure(2.7, e2e=0.1))
    first, second, third, fourth = ledger.timeline().targets["llm"]
    assert first == Second(second=0, requests=0, failures=0, output_tokens=0, in_flight=1, good=0)
    assert (second.second, second.requests, second.in_flight) == (1, 0, 1)
    assert (third.requests, third.failures, third.output_tokens, third.good) == (2, 1, 14, 1)
    assert (fourth.requests, fourth.output_tokens, fourth.good, fourth.in_flight) == (1, 10, 0, 0)
    latencies = third.ttft_p50_ms, third.ttft_p95_ms, third.itl_p50_ms, third.itl_p95_ms, third.e2e_p95_ms
    assert latencies == pytest.approx((100, 100, 40, 60, 2000), rel=1e-3)


def test_all_targets_have_all_seconds(ledger: Ledger, clock: Clock) -> None:
    run(ledger, clock, answer(3.0, e2e=1.5))
    targets = ledger.timeline().targets
    assert [second.second for second in targets["llm"]] == [0, 1, 2, 3, 4]
    assert [second.requests for second in targets["other"]] == [0] * 5


def test_a_router_has_a_line_for_each_model_that_answers(clock: Clock) -> None:
    ledger = Ledger(options("chat"), None, started_at=START, clock=clock)
    run(ledger, clock, answer(0.0, target="chat", served_by="llm_bf16:1", e2e=0.9))
    run(ledger, clock, answer(1.0, target="chat", served_by="llm_awq:1", e2e=1.5))
    targets = ledger.timeline().targets
    assert list(targets) == ["chat", "chat > llm_bf16:1", "chat > llm_awq:1"]
    assert [second.requests for second in targets["chat"]] == [1, 0, 1]
    assert [second.requests for second in targets["chat > llm_awq:1"]] == [0, 0, 1]
    assert [second.in_flight for second in targets["chat > llm_awq:1"]] == [0, 1, 0]


def test_a_server_that_hangs_does_not_stop_the_time(ledger: Ledger, clock: Clock) -> None:
    ledger.begin("llm", START)
    assert [second.in_flight for second in ledger.timeline(seconds=3.9).targets["llm"]] == [1, 1, 1, 1]


def test_later_seconds_still_know_what_is_in_flight(ledger: Ledger, clock: Clock) -> None:
    ledger.begin("llm", START)
    clock.seconds = START + 2
    ledger.begin("llm", START + 2)
    (last,) = ledger.timeline(since=2).targets["llm"]
    assert (last.second, last.in_flight) == (2, 2)


def test_the_warm_up_is_shown(clock: Clock) -> None:
    ledger = Ledger(options(warmup_s=10), None, started_at=START, clock=clock)
    run(ledger, clock, answer())
    assert [second.requests for second in ledger.timeline().targets["llm"]] == [0, 1]


def test_without_sla_nothing_is_good(clock: Clock) -> None:
    ledger = Ledger(options(), None, started_at=START, clock=clock)
    run(ledger, clock, answer())
    assert {second.good for second in ledger.timeline().targets["llm"]} == {None}


def test_what_comes_long_after_its_second_still_counts_in_it(ledger: Ledger, clock: Clock) -> None:
    """Seconds older than a minute are put away; a worker may report late all the same."""
    late = Ledger(options("llm", "other"), SlaLimits(ttft_ms=500), started_at=START, clock=clock)
    run(late, clock, answer(5.0, ttft=0.3, e2e=0.5))
    run(ledger, clock, answer(5.0, ttft=0.1, e2e=0.5), *(answer(due, e2e=0.5) for due in range(70, 200)))
    before = ledger.timeline().targets["llm"][5]
    ledger.merge(late.drain())
    run(ledger, clock, *(answer(due, e2e=0.5) for due in range(200, 300)))
    after = ledger.timeline().targets["llm"][5]
    assert (before.requests, before.ttft_p95_ms) == (1, pytest.approx(100, rel=1e-3))
    assert (after.requests, after.ttft_p50_ms) == (2, pytest.approx(100, rel=1e-3))
    assert after.ttft_p95_ms == pytest.approx(300, rel=1e-3)


def test_a_clock_that_was_set_back_counts_at_the_start(ledger: Ledger, clock: Clock) -> None:
    clock.seconds = START - 5
    ledger.begin("llm", clock.seconds)
    assert ledger.timeline().targets["llm"][0].in_flight == 1
