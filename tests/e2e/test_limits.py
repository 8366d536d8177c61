"""Limits, deadlines, priorities and a full queue: on a slow mock engine, which can be filled exactly.

`test_float32.py` fills a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e import repository
from tests.e2e.asking import Model, Outputs, RefusedError, Triton, Way, grpc_request, tokens_of
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import Scrape, at_rest, is_idle, settled
from tests.e2e.rungs import LLM, sampling
from tools.client.client import Client
from tools.client.errors import RequestRefusedError
from tools.client.request import GenerateRequest, Target

SLOW = Model(repository.SLOW_MOCK)
BRIEF = Model(repository.BRIEF_MOCK)


@pytest.fixture(scope="module", autouse=True)
def loaded(server: Deployment) -> Iterator[None]:
    with server.loaded(SLOW.name), server.loaded(BRIEF.name):
        yield


class Occupied:
    """Streams that hold every place of the slow mock."""

    def __init__(self, server: Deployment, triton: Triton) -> None:
        self._server = server
        self._calls = [triton.grpc_call(slow(repository.ENDLESS_TOKENS)) for _ in range(repository.SLOW_MOCK_RUNNING)]
        for call in self._calls:
            next(iter(call))

    def free_one(self) -> None:
        self._calls.pop().cancel()

    def free(self) -> None:
        while self._calls:
            self.free_one()
        at_rest(self._server.address, SLOW.name)

    def wait_for_queue(self, length: int) -> None:
        """Returns once so many requests wait."""
        settled(self._server.address, SLOW.name, lambda now: now["ladder_requests_waiting"] == length)


@pytest.fixture
def occupied(server: Deployment, triton: Triton) -> Iterator[Occupied]:
    occupied = Occupied(server, triton)
    yield occupied
    occupied.free()


def slow(max_tokens: int) -> Any:
    inputs = {
        "text_input": "tick",
        "stream": True,
        "sampling_parameters": sampling(max_tokens),
        "return_num_output_tokens": True,
    }
    return grpc_request(SLOW, inputs)


def asked(pool: ThreadPoolExecutor, triton: Triton, request: Any) -> Future[list[Outputs]]:
    return pool.submit(lambda: list(triton.grpc_stream(request)))


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
def test_a_deadline_ends_a_running_request(server: Deployment, triton: Triton, way: Way) -> None:
    before = at_rest(server.address, SLOW.name)
    inputs = {"text_input": "tick", "stream": way is not Way.GENERATE, "sampling_parameters": sampling(1000)}
    with pytest.raises(RefusedError) as caught:
        triton.ask(way, SLOW, inputs, {"timeout": 1_000_000})
    error = caught.value
    assert error.message.startswith("the deadline of 1 s passed after ")
    assert error.message.endswith(
        ' tokens: allow more time with the request parameter "timeout" (microseconds) or ask for fewer tokens'
    )
    # HTTP has no status left once a stream has begun, and 400 for everything before.
    assert error.code == {Way.GRPC: "UNAVAILABLE", Way.SSE: "200", Way.GENERATE: "400"}[way]
    assert bool(error.responses) == (way is not Way.GENERATE)
    name = "ladder_requests_deadline_exceeded_total"
    after = settled(server.address, SLOW.name, lambda now: now[name] > before[name] and is_idle(now))
    assert after.since(before)[name] == 1


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
def test_a_deadline_ends_a_waiting_request(occupied: Occupied, triton: Triton, way: Way) -> None:
    inputs = {"text_input": "tick", "stream": way is not Way.GENERATE, "sampling_parameters": sampling(1)}
    with pytest.raises(RefusedError) as caught:
        triton.ask(way, SLOW, inputs, {"timeout": 300_000})
    assert caught.value.message.startswith("the deadline of 0.3 s passed in the queue: allow more time")
    assert caught.value.code == ("UNAVAILABLE" if way is Way.GRPC else "400")
    occupied.wait_for_queue(0)


def test_a_model_has_a_deadline_for_requests_without_one(triton: Triton) -> None:
    inputs = {"text_input": "tick", "sampling_parameters": sampling(1000)}
    with pytest.raises(RefusedError, match=r"^UNAVAILABLE: the deadline of 0.5 s passed after \d+ tokens"):
        triton.ask(Way.GRPC, BRIEF, inputs)
    # A request's own counts instead, also where it allows more.
    answer = triton.ask(
        Way.GRPC,
        BRIEF,
        {**inputs, "sampling_parameters": sampling(30), "return_num_output_tokens": True},
        {"timeout": 60_000_000},
    )
    assert tokens_of(answer) == 30


def test_when_the_queue_is_full_the_next_is_refused_at_once(
    server: Deployment, triton: Triton, occupied: Occupied
) -> None:
    room = repository.SLOW_MOCK_MAX_WAITING
    before = Scrape.of(server.address, SLOW.name)
    with ThreadPoolExecutor(room) as pool:
        waiting = [asked(pool, triton, slow(2)) for _ in range(room)]
        occupied.wait_for_queue(room)
        for way, code in ((Way.GRPC, "UNAVAILABLE"), (Way.SSE, "400"), (Way.GENERATE, "400")):
            with pytest.raises(RefusedError) as caught:
                triton.ask(way, SLOW, {"text_input": "tick"})
            assert caught.value.code == code
            assert caught.value.message == (
                f"the queue is full: {room} requests wait and MAX_WAITING_REQUESTS is {room}. "
                "Retry later or send the request to another instance"
            )
        assert not any(future.done() for future in waiting), "nothing has moved meanwhile"
        occupied.free()
        assert [tokens_of(future.result()) for future in waiting] == [2] * room
    after = at_rest(server.address, SLOW.name)
    assert after.since(before).at("ladder_requests_rejected_total", reason="queue_full") == 3


@pytest.mark.parametrize("written", ["request parameter", "sampling parameter"])
def test_who_waits_goes_by_priority_then_by_age(triton: Triton, occupied: Occupied, written: str) -> None:
    # 1 is the highest; 0 is none, which ranks as 100.
    priorities = [0, 200, 5, 1, 5]
    order: list[int] = []
    lock = threading.Lock()

    def ask(number: int, priority: int) -> None:
        own = {"priority": priority} if written == "sampling parameter" else {}
        parameters = {"priority": priority} if written == "request parameter" else {}
        triton.ask(
            Way.SSE, SLOW, {"text_input": "tick", "stream": True, "sampling_parameters": sampling(4, **own)}, parameters
        )
        with lock:
            order.append(number)

    with ThreadPoolExecutor(len(priorities)) as pool:
        futures = []
        for number, priority in enumerate(priorities):
            futures.append(pool.submit(ask, number, priority))
            occupied.wait_for_queue(number + 1)
        # One place becomes free, so they run one after the other.
        occupied.free_one()
        for future in futures:
            future.result()
    assert order == [3, 2, 4, 0, 1]


def test_a_prompt_of_too_many_bytes(triton: Triton) -> None:
    with pytest.raises(RefusedError) as caught:
        triton.ask(Way.GRPC, LLM, {"text_input": "é" * 32769, "sampling_parameters": sampling(1)})
    assert str(caught.value) == (
        'INVALID_ARGUMENT: "text_input" has 65538 bytes: MAX_PROMPT_BYTES allows at most 65536'
    )


@pytest.mark.parametrize("way", Way, ids=lambda way: way.value)
def test_a_prompt_over_the_context(triton: Triton, way: Way) -> None:
    message = (
        '"text_input" has 3001 tokens: the context takes 2048, of which at least one is for the answer, so at most 2047'
    )
    with pytest.raises(RefusedError) as caught:
        triton.ask(way, LLM, {"text_input": "a " * 3000, "sampling_parameters": sampling(1)})
    assert caught.value.message == message


def test_a_thousand_refused_streams_leave_the_server_running(server: Deployment, client: Client) -> None:
    """With the metadata `triton_grpc_error`, which our client does not send, some hundred of them end tritonserver."""
    wrong = GenerateRequest(prompt="Hello", sampling={"temprature": 0})

    def refused(target: Target) -> None:
        with (
            pytest.raises(RequestRefusedError, match='did you mean "temperature"'),
            client.stream(target, wrong) as answer,
        ):
            list(answer)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(refused, [Target(LLM.name), Target("chat_bf16")] * 500))
    assert not server.has_ended()
    # None of them was lost: a model with a lost request never finishes unloading.
    assert at_rest(server.address, LLM.name)["vllm:num_requests_running"] == 0
