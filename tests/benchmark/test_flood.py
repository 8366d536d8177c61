"""The load generator against a scripted server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.client.fakes.grpc_front import serve_grpc
from tests.client.fakes.triton import Fail, FakeTriton, Say, Script, Seen, Step, engine
from tools.benchmark.flood import _answer
from tools.benchmark.workload import Load, ServedLoad, Tally, Trouble

MODEL = "llm_mock"


def merged(seen: Seen) -> Sequence[Step]:
    """Three tokens, then the rest in one response."""
    tokens = seen.sampling["max_tokens"]
    return [Say("a", 3), Say("b", tokens - 3, final=True)]


@contextmanager
def served(script: Script) -> Iterator[tuple[FakeTriton, int]]:
    triton = FakeTriton(engine(MODEL, script=script))
    with serve_grpc(triton) as port:
        yield triton, port


def order(port: int, load: Load, connections: int = 2) -> ServedLoad:
    return ServedLoad(load=load, port=port, model=MODEL, connections=connections)


def test_each_stream_asks_once_without_a_window() -> None:
    with served(merged) as (triton, port):
        tally = _answer(order(port, Load(streams=5, tokens=10, prompts=((1, 2), (3,)))))
    assert isinstance(tally, Tally)
    assert (tally.tokens, tally.responses, len(tally.ttft_s)) == (50, 10, 5)
    assert tally.seconds > 0
    assert tally.cpu_s["client"] >= 0
    assert [seen.inputs["input_ids"] for seen in triton.seen].count([1, 2]) == 3
    assert {tuple(seen.inputs["input_ids"]) for seen in triton.seen} == {(1, 2), (3,)}
    assert len({seen.request_id for seen in triton.seen}) == 5
    assert triton.seen[0].sampling == {"max_tokens": 10, "temperature": 0.0, "ignore_eos": True}
    assert triton.seen[0].inputs["stream"] == [True]
    assert triton.seen[0].inputs["return_num_output_tokens"] == [True]


@pytest.mark.slow
def test_with_a_window_streams_ask_again_and_only_the_window_counts() -> None:
    with served(merged) as (triton, port):
        tally = _answer(order(port, Load(streams=3, tokens=8, seconds=0.3)))
    assert isinstance(tally, Tally)
    assert tally.seconds >= 0.3
    assert len(triton.seen) > 3
    # What came before the window opened and after it closed is not in it.
    assert 0 < tally.tokens < 8 * len(triton.seen)
    assert len(tally.ttft_s) < len(triton.seen)
    assert triton.seen[0].inputs["text_input"] == ["the quick brown fox jumps over the lazy dog"]


def test_more_connections_than_streams_are_not_opened() -> None:
    with served(merged) as (_, port):
        tally = _answer(order(port, Load(streams=1, tokens=4), connections=8))
    assert isinstance(tally, Tally)
    assert tally.tokens == 4


def test_a_lost_token_fails_the_measurement() -> None:
    with served(lambda _: [Say("a", 3), Say("b", 6, final=True)]) as (_, port):
        trouble = _answer(order(port, Load(streams=2, tokens=10)))
    assert isinstance(trouble, Trouble)
    assert "got 9 of 10 tokens" in trouble.error


def test_a_failed_request_fails_the_measurement_with_the_models_words() -> None:
    with served(lambda _: [Fail("UNAVAILABLE", "the queue is full: 256 requests wait")]) as (_, port):
        trouble = _answer(order(port, Load(streams=2, tokens=10)))
    assert trouble == Trouble(error='"llm_mock" failed a request: the queue is full: 256 requests wait [UNAVAILABLE]')


def test_an_unknown_model_is_trouble_and_no_traceback() -> None:
    with serve_grpc(FakeTriton()) as port:
        trouble = _answer(order(port, Load(streams=1, tokens=1)))
    assert isinstance(trouble, Trouble)
    assert MODEL in trouble.error


def test_a_server_that_is_not_there_is_trouble() -> None:
    with serve_grpc(FakeTriton()) as port:
        pass
    trouble = _answer(order(port, Load(streams=1, tokens=1)))
    assert isinstance(trouble, Trouble)
    assert str(port) in trouble.error
