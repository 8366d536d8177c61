from __future__ import annotations

from time import perf_counter, time

import pytest

from loadtest.statistics.outcome import ErrorKind
from loadtest.users.answer import Attempt
from loadtest.workloads.planned import PlannedRequest
from tools.client.completion import Chunk
from tools.client.request import Target

REQUEST = PlannedRequest(max_tokens=9, prompt="once")


def chunk(tokens: int | None, at: float, finish: str | None = None) -> Chunk:
    return Chunk(("a",), tokens, (finish,), 4, at, served_by=Target("llm_bf16", 2))


def attempt(*, late_s: float = 2.0, deadline_s: float = 60.0, streamed: bool = True) -> Attempt:
    begun = Attempt("llm_bf16", REQUEST, time() - late_s, deadline_s)
    begun.start(streamed=streamed)
    return begun


def test_the_delay_before_sending_is_part_of_ttft_and_e2e_but_not_of_the_gaps() -> None:
    measured = attempt()
    started_at = perf_counter()
    measured.add(chunk(1, started_at + 1))
    measured.add(chunk(4, started_at + 3, "stop"))

    outcome = measured.end().outcome

    assert outcome.failure is None
    assert outcome.send_lag_s == pytest.approx(2, abs=0.5)
    assert outcome.ttft_s == pytest.approx(3, abs=0.5)
    assert outcome.e2e_s == pytest.approx(5, abs=0.5)
    assert outcome.itl_s == (pytest.approx(2, abs=0.01),)
    assert outcome.tpot_s == pytest.approx(2 / 4, abs=0.01)
    assert outcome.served_by == "llm_bf16:2"


def test_who_answered_for_a_router_is_what_its_first_response_said() -> None:
    measured = attempt()
    first = Chunk(("a",), 1, (None,), 4, perf_counter(), served_by=Target("llm_awq", 1), routed=True)
    measured.add(first)
    measured.add(chunk(1, perf_counter(), "stop"))

    assert measured.end().outcome.served_by == "llm_awq:1"


def test_a_whole_answer_after_the_deadline_is_a_failure_that_was_counted() -> None:
    measured = attempt(late_s=2.0, deadline_s=10.0)
    measured.add(chunk(5, perf_counter() + 9, "stop"))

    outcome = measured.end().outcome

    assert outcome.failure is not None
    assert outcome.failure.kind is ErrorKind.DEADLINE
    assert outcome.failure.message == "no whole answer within 10 s of when it was due"
    assert outcome.output_tokens == 5


def test_a_request_due_in_the_future_has_no_lag() -> None:
    measured = attempt(late_s=-5.0)
    measured.add(chunk(5, perf_counter(), "stop"))

    assert measured.end().outcome.send_lag_s == 0


def test_responses_are_no_tokens() -> None:
    measured = attempt()
    for _ in range(3):
        measured.add(chunk(0, perf_counter()))
    measured.add(chunk(7, perf_counter(), "length"))

    outcome = measured.end().outcome

    assert (outcome.output_tokens, outcome.responses) == (7, 1)
    assert outcome.finish_reason == "length"
