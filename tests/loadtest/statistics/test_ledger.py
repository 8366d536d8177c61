from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from loadtest.options import SlaLimits
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind, Outcome
from loadtest.statistics.results import Quantiles, RunResult, TargetResult
from tests.loadtest.statistics.examples import HEALTHY, START, Clock, answer, failure, options, result_of, run

SLA = SlaLimits(ttft_ms=500, tpot_ms=50, p99_e2e_s=4)


def only(result: RunResult) -> TargetResult:
    (target,) = result.targets
    return target


# Merging


times = st.floats(0, 100)
outcomes = st.builds(
    lambda whole, due, **given: (answer if whole else failure)(due, **given),
    whole=st.booleans(),
    due=st.floats(0, 200),
    target=st.sampled_from(["a", "b:2"]),
    ttft=st.none() | times,
    e2e=times,
    tpot_s=st.none() | times,
    itl_s=st.lists(times, max_size=4).map(tuple),
    send_lag_s=times,
    output_tokens=st.integers(0, 1000),
    finish_reason=st.sampled_from(["", "stop", "length"]),
    served_by=st.sampled_from(["", "a:1", "b:2"]),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.lists(outcomes, max_size=4), max_size=3), min_size=1, max_size=3), st.randoms())
def test_workers_in_pieces_in_any_order_make_the_same_run_as_one_process(
    workers: list[list[list[Outcome]]], order: random.Random
) -> None:
    clock = Clock()
    asked = options("a", "b:2", warmup_s=20)
    one, master = (Ledger(asked, SLA, started_at=START, clock=clock) for _ in range(2))
    messages = []
    for pieces in workers:
        worker = Ledger(asked, SLA, started_at=START, clock=clock)
        for piece in pieces:
            run(one, clock, *piece)
            run(worker, clock, *piece)
            messages.append(msgpack.packb(worker.drain()))
    for message in order.sample(messages, len(messages)):
        master.merge(msgpack.unpackb(message))
    assert master.result(seconds=200, client=HEALTHY) == one.result(seconds=200, client=HEALTHY)
    assert master.timeline() == one.timeline()
    assert sorted(map(repr, master.records())) == sorted(map(repr, one.records()))
    assert master.send_lags() == one.send_lags()


def test_what_was_handed_over_is_forgotten() -> None:
    clock = Clock()
    worker = Ledger(options(), None, started_at=START, clock=clock)
    run(worker, clock, answer())
    worker.drain()
    assert only(worker.result(seconds=10, client=HEALTHY)).requests == 0
    assert [second.requests for second in worker.timeline().targets["llm"]] == [0]
    assert worker.records() == ()
    master = Ledger(options(), None, started_at=START, clock=clock)
    master.merge(worker.drain())
    assert only(master.result(seconds=10, client=HEALTHY)).requests == 0


def test_a_request_that_spans_two_messages_is_in_flight_in_between() -> None:
    clock = Clock()
    worker, master = (Ledger(options(), None, started_at=START, clock=clock) for _ in range(2))
    worker.begin("llm", START)
    master.merge(worker.drain())
    assert only(master.result(seconds=10, client=HEALTHY)).cut == 1
    worker.add(answer())
    master.merge(worker.drain())
    assert only(master.result(seconds=10, client=HEALTHY)).cut == 0


def test_a_message_that_is_none_is_refused() -> None:
    master = Ledger(options(), None, started_at=START)
    message: dict[str, Any] = Ledger(options(), None, started_at=START).drain()
    message["tallies"]["llm"]["ttft"] = b"damaged"
    with pytest.raises(ValidationError, match=r"tallies\.llm\.ttft"):
        master.merge(message)


# What counts as what


def test_a_failure_has_no_latency_but_its_tokens_count() -> None:
    found = only(result_of(answer(), failure(1)))
    assert found.requests == 2
    assert found.failures == {"truncated": 1}
    assert found.messages == {"the stream ended early": 1}
    assert found.output_tokens == 14
    assert {found.ttft_ms.count, found.tpot_ms.count, found.e2e_ms.count} == {1}
    assert found.itl_ms.count == 2
    assert found.lag_ms.count == 2


def test_a_run_of_failures_has_no_latencies_at_all() -> None:
    found = only(result_of(failure(), failure(1)))
    assert (found.ttft_ms, found.tpot_ms, found.itl_ms, found.e2e_ms) == (Quantiles(count=0),) * 4
    assert found.seconds == 2.0


def test_rates_are_over_the_counted_window() -> None:
    """From the end of the warm-up, 10 s, to the end of the last request, 20 s."""
    found = only(result_of(answer(5), answer(10), failure(15), answer(18, e2e=2.0), warmup_s=10))
    assert found.seconds == 10.0
    assert found.requests_per_s == 0.3
    assert found.output_tokens_per_s == 2.4


def test_the_window_goes_to_the_end_of_the_run_while_requests_hang() -> None:
    clock = Clock()
    ledger = Ledger(options(), None, started_at=START, clock=clock)
    run(ledger, clock, answer(e2e=5.0))
    ledger.begin("llm", START + 5)
    found = only(ledger.result(seconds=20, client=HEALTHY))
    assert (found.seconds, found.cut, found.requests_per_s) == (20.0, 1, 0.05)


def test_tokens_of_cut_requests_count_where_the_server_counted_them() -> None:
    clock = Clock()
    worker, master = (Ledger(options(warmup_s=2), None, started_at=START, clock=clock) for _ in range(2))
    run(worker, clock, answer(3, e2e=2.0))
    for due, tokens in ((1, 7), (6, 5), (7, None), (8, 0)):
        worker.begin("llm", START + due)
        clock.seconds = START + 12
        worker.cut("llm", START + due, tokens)
    master.merge(worker.drain())
    found = only(master.result(seconds=12, client=HEALTHY))

    assert (found.requests, found.cut, found.cut_output_tokens, found.cut_uncounted) == (1, 4, 5, 1)
    # Over the ten seconds from the end of the warm-up to the end of the run.
    assert (found.output_tokens, found.output_tokens_per_s) == (15, 1.5)
    assert found.e2e_ms.count == 1
    assert sum(second.output_tokens for second in master.timeline().targets["llm"]) == 15


def test_good_are_whole_answers_inside_the_sla() -> None:
    slow = [answer(2, ttft=0.6), answer(3, tpot_s=0.06), answer(4, e2e=4.5)]
    found = only(result_of(answer(), answer(1), *slow, failure(5), answer(9), sla=SLA))
    assert found.good == 3
    assert found.goodput_per_s == 0.3


def test_without_sla_nothing_is_good_or_missed() -> None:
    found = only(result_of(answer(), failure()))
    assert (found.good, found.goodput_per_s, found.missed) == (None, None, ())


def test_what_each_model_answered_of_a_routers_requests_stands_apart() -> None:
    handed_on = [answer(target="chat", served_by="llm_bf16:1"), answer(3, target="chat", served_by="llm_bf16:1")]
    canary = [
        answer(1, target="chat", served_by="llm_awq:1", ttft=0.9),
        failure(2, target="chat", served_by="llm_awq:1"),
    ]
    nobody = failure(3.5, target="chat", served_by="", e2e=0.5)
    found = result_of(*handed_on, *canary, nobody, sla=SLA)
    assert only(found).requests == 5
    assert only(found).served_by == {"llm_awq:1": 2, "llm_bf16:1": 2}
    awq, bf16 = found.parts
    assert (awq.target, awq.requests, awq.failures, awq.good) == ("chat > llm_awq:1", 2, {"truncated": 1}, 0)
    assert (bf16.target, bf16.requests, bf16.failures, bf16.good) == ("chat > llm_bf16:1", 2, {}, 2)
    assert awq.ttft_ms.p50 == pytest.approx(900, rel=1e-3)
    assert bf16.ttft_ms.p50 == pytest.approx(100, rel=1e-3)
    assert (awq.seconds, awq.requests_per_s) == (4.0, 0.5), "over the seconds of the router"
    assert found.order == ("chat", "chat > llm_awq:1", "chat > llm_bf16:1")
    assert RunResult.model_validate_json(found.model_dump_json()) == found


def test_a_version_that_answers_for_its_model_is_no_part() -> None:
    assert result_of(answer(served_by="llm:2"), answer(1, target="other:3", served_by="other:3")).parts == ()


def test_messages_come_most_frequent_first_and_at_most_twenty() -> None:
    rare = [failure(kind=ErrorKind.SERVER, message=f"request {number}") for number in range(30)]
    found = only(result_of(*rare, failure(), failure()))
    assert next(iter(found.messages)) == "the stream ended early"
    assert len(found.messages) == 20
    assert found.failures == {"server": 30, "truncated": 2}


def test_no_more_than_two_hundred_messages_are_kept_apart() -> None:
    rare = [failure(message=f"request {number} " + "x" * 1000) for number in range(250)]
    found = only(result_of(*rare))
    assert found.messages["(other messages)"] == 50
    assert max(map(len, found.messages)) == 500


# Warm-up


def test_what_is_due_during_the_warm_up_is_left_out() -> None:
    found = result_of(answer(), answer(9.9, e2e=5.0), answer(10), warmup_s=10)
    assert (only(found).requests, found.warmup_requests) == (1, 2)


def test_the_first_requests_to_begin_are_left_out_though_they_end_last() -> None:
    clock = Clock()
    ledger = Ledger(options(warmup_requests=2), None, started_at=START, clock=clock)
    cold, second, third, fourth = (answer(due) for due in (0.0, 0.1, 0.2, 0.3))
    for outcome in (cold, second, third, fourth):
        ledger.begin("llm", outcome.due_at)
    for outcome in (fourth, third, second, cold):
        ledger.add(outcome)
    found = ledger.result(seconds=10, client=HEALTHY)
    assert found.warmup_requests == 2
    assert [record.due_at for record in ledger.records()] == [third.due_at, fourth.due_at]
    assert only(found).seconds == pytest.approx(1.1)


def test_the_warm_up_lasts_until_both_its_time_and_its_requests_are_over() -> None:
    by_time = result_of(*(answer(due) for due in range(10)), warmup_s=5, warmup_requests=2)
    by_count = result_of(*(answer(due) for due in range(10)), warmup_s=2, warmup_requests=5)
    assert (by_time.warmup_requests, by_count.warmup_requests) == (5, 5)


def test_a_run_that_ends_in_its_warm_up_has_no_rates() -> None:
    found = result_of(answer(), answer(1), warmup_requests=5)
    assert found.warmup_requests == 2
    assert (only(found).requests, only(found).seconds, only(found).output_tokens_per_s) == (0, 0.0, 0.0)


def test_workers_leave_out_their_shares_and_the_earliest_end_of_warm_up_begins_the_window() -> None:
    clock = Clock()
    asked = options(warmup_requests=3)
    master = Ledger(asked, None, started_at=START, clock=clock)
    for share, dues in ((1, (0.0, 4.0)), (2, (0.0, 1.0, 5.0))):
        worker = Ledger(asked, None, started_at=START, warmup_requests=share, clock=clock)
        run(worker, clock, *(answer(due) for due in dues))
        master.merge(worker.drain())
    found = master.result(seconds=10, client=HEALTHY)
    assert (found.warmup_requests, only(found).requests, only(found).seconds) == (3, 2, 2.0)


# Results


def test_a_result_comes_back_from_its_json() -> None:
    found = result_of(answer(), failure(), sla=SLA, partial=("interrupted",))
    assert RunResult.model_validate_json(found.model_dump_json()) == found
    assert set(only(found).histograms) == {"ttft", "tpot", "itl", "e2e", "lag"}


def test_a_result_to_look_at_is_not_encoded() -> None:
    assert (
        only(
            Ledger(options(), None, started_at=START).result(seconds=1, client=HEALTHY, with_histograms=False)
        ).histograms
        == {}
    )


def test_the_send_lag_stands_next_to_the_ttft_or_to_the_end_of_answers_in_one_piece() -> None:
    clock = Clock()
    ledger = Ledger(options("a", "b", "c"), None, started_at=START, clock=clock)
    run(ledger, clock, answer(target="a", ttft=0.2), answer(target="b", ttft=None, e2e=1.0))
    streamed, whole, unused = ledger.send_lags()
    assert (streamed.lag_p99_ms, streamed.latency_p99_ms) == (1.0, pytest.approx(200, rel=1e-3))
    assert whole.latency_p99_ms == pytest.approx(1000, rel=1e-3)
    assert (unused.lag_p99_ms, unused.latency_p99_ms) == (None, None)
