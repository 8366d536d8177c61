from __future__ import annotations

from typing import Any

import pytest

from tools.engine.accounting import Accounting
from tools.engine.adapters.base import Work
from tools.engine.live import Ending, Live
from tools.wire.messages import Delta, Failure, Request, Sample


def live(*, stream: bool = True, sequences: int = 1, arrived: float = 100.0) -> Live:
    return Live("peer", Work(Request(1, "id", "prompt", stream=stream), "id", None, sequences), arrived)


def delta(text: str = "a", tokens: int = 1, reason: str | None = None, **fields: Any) -> Delta:
    return Delta(1, [text], [tokens], [reason], 5, **{"final": reason is not None, **fields})


def samples(accounting: Accounting) -> dict[str, Sample]:
    return {f"{sample.name}{{{sample.label}}}".removesuffix("{}"): sample for sample in accounting.take()}


def test_times_are_counted_from_arrival_and_between_steps() -> None:
    request, accounting = live(), Accounting()
    request.admitted = 101.0
    request.work.queued_s = 0.5
    request.account(delta(), 102.0, accounting)
    request.account(delta(), 102.25, accounting)
    request.account(delta(tokens=2, reason="stop"), 104.0, accounting)
    told = samples(accounting)
    assert told["vllm:time_to_first_token_seconds"].observations == [2.0]
    assert told["vllm:request_queue_time_seconds"].observations == [1.5]
    assert told["vllm:e2e_request_latency_seconds"].observations == [4.0]
    assert told["vllm:request_time_per_output_token_seconds"].observations == [pytest.approx(2.0 / 3)]
    assert told["vllm:inter_token_latency_seconds"].value == 2.0
    assert sum(told["vllm:inter_token_latency_seconds"].bucket_counts) == 2
    assert told["vllm:generation_tokens_total"].value == 4
    assert told["vllm:prompt_tokens_total"].value == 5
    assert told["vllm:request_generation_tokens"].observations == [4]
    assert told["vllm:request_success_total{stop}"].value == 1


def test_a_delta_without_tokens_is_no_step() -> None:
    request, accounting = live(), Accounting()
    request.account(delta("", 0), 101.0, accounting)
    assert accounting.take() == []
    request.account(delta(), 102.0, accounting)
    request.account(delta("tail", 0, "stop"), 103.0, accounting)
    told = samples(accounting)
    assert told["vllm:time_to_first_token_seconds"].observations == [2.0]
    assert "vllm:inter_token_latency_seconds" not in told


def test_one_token_has_no_time_per_output_token() -> None:
    request, accounting = live(), Accounting()
    request.account(delta(reason="length"), 101.0, accounting)
    assert "vllm:request_time_per_output_token_seconds" not in samples(accounting)


def test_each_sequence_counts_with_its_own_reason() -> None:
    """The last delta holds the reason of the sequence that ended last; the others ended before."""
    request, accounting = live(sequences=3), Accounting()
    request.account(Delta(1, ["a", "b", "c"], [1, 1, 1], ["length", None, None], 5), 101.0, accounting)
    request.account(Delta(1, ["", "b", "c"], [0, 1, 1], [None, "stop", None], 5), 102.0, accounting)
    request.account(Delta(1, ["", "", "c"], [0, 0, 1], [None, None, "length"], 5, final=True), 103.0, accounting)
    told = samples(accounting)
    assert told["vllm:request_success_total{length}"].value == 2
    assert told["vllm:request_success_total{stop}"].value == 1
    # 6 tokens in 3 sequences: 2 each, so one pause of 2 s.
    assert told["vllm:request_time_per_output_token_seconds"].observations == [2.0]


def test_a_failed_request_is_no_success() -> None:
    request, accounting = live(), Accounting()
    failure = Failure("INTERNAL", "broken")
    request.account(Delta(1, [], [], [], final=True, failure=failure), 101.0, accounting)
    assert accounting.take() == []


def test_a_stream_lets_each_delta_go_at_once() -> None:
    request, first = live(stream=True), delta()
    assert request.release(first) is first
    assert request.held == []


def test_without_stream_everything_is_held_until_the_end() -> None:
    request = live(stream=False)
    assert request.release(delta("a")) is None
    assert request.release(delta("b", 2)) is None
    assert request.release(delta("c", reason="stop")) == Delta(1, ["abc"], [4], ["stop"], 5, final=True)


def test_what_the_client_of_a_stopped_request_is_told() -> None:
    request = live()
    request.tokens = 7
    request.deadline_s = 1.5
    assert request.stop_failure(Ending.CLIENT) == Failure(
        "CANCELLED", "the client cancelled the request after 7 tokens"
    )
    assert request.stop_failure(Ending.UNLOAD) == Failure(
        "CANCELLED", "the model is being unloaded after 7 tokens", "unloading"
    )
    assert request.stop_failure(Ending.DEADLINE) == Failure(
        "UNAVAILABLE",
        "the deadline of 1.5 s passed in the queue: "
        'allow more time with the request parameter "timeout" (microseconds) or ask for fewer tokens',
        "deadline",
    )
