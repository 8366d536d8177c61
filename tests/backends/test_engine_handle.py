"""Streams through a real engine process, and what becomes of them when it dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.backends.engines import HASTY, interpreter, is_running
from tests.backends.models import arguments
from tests.fixtures.fake_pb_utils import MetricFamily
from tests.waiting import NEVER_S, wait_until
from tools.backends import engine_handle
from tools.backends.engine_handle import EngineHandle
from tools.backends.model_config import ModelConfig
from tools.engine.adapters.mock import mock_tokens
from tools.wire.messages import Delta, Failure, Request, Tokenize, Tokenized

WITH_METRICS = {"REPORT_CUSTOM_METRICS": "True"}


class Outlet:
    def __init__(self) -> None:
        self.sent: list[Delta] = []
        self.ended = threading.Event()
        self.cancelled = False

    def send(self, delta: Delta) -> None:
        self.sent.append(delta)
        if delta.final:
            self.ended.set()

    def is_cancelled(self) -> bool:
        return self.cancelled

    @property
    def text(self) -> str:
        return "".join(delta.texts[0] for delta in self.sent if delta.texts)

    def failure(self) -> Failure:
        assert self.ended.wait(NEVER_S), "the stream hangs"
        failure = self.sent[-1].failure
        assert failure is not None
        return failure


class Handle:
    """An engine handle with what its owner was told."""

    def __init__(self, repository: Path, patience: Any = HASTY, **described: Any) -> None:
        self.failed: list[str] = []
        self.tokenized: list[Tokenized] = []
        config = ModelConfig.from_arguments(arguments(repository, **described))
        self.handle = EngineHandle(
            config,
            "mock",
            on_tokenized=self.tokenized.append,
            on_failed=self.failed.append,
            patience=patience,
        )
        self.pid = 0

    def start(self) -> Handle:
        self.pid = self.handle.start().pid
        return self

    def ask(self, prompt: str = "a b", max_tokens: int = 5, *, stream: bool = True) -> Outlet:
        outlet = Outlet()
        request = Request(
            self.handle.next_key(), "", prompt, parameters=f'{{"max_tokens": {max_tokens}}}', stream=stream
        )
        self.handle.submit([(request, outlet)])
        return outlet


@pytest.fixture
def handles(places: Path, tmp_path: Path) -> Iterator[Any]:
    made: list[Handle] = []

    def make(**described: Any) -> Handle:
        made.append(Handle(tmp_path / "model", **described))
        return made[-1]

    yield make
    for item in made:
        item.handle.stop()
    assert list(places.iterdir()) == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("sender", "link", "engine"))]


def value(name: str, **labels: str) -> float:
    (metric,) = [metric for metric in MetricFamily.registered[name].metrics if labels.items() <= metric.labels.items()]
    return metric.value()


@pytest.mark.slow
def test_many_streams_get_their_own_answers(handles: Any) -> None:
    it = handles().start()
    outlets = {prompt: it.ask(prompt, 40, stream=number % 2 == 0) for number, prompt in enumerate(map(str, range(64)))}
    for prompt, outlet in outlets.items():
        assert outlet.ended.wait(NEVER_S)
        assert outlet.text == "".join(mock_tokens(prompt, 40))
        assert outlet.sent[-1].failure is None


@pytest.mark.slow
def test_a_client_that_goes_is_cancelled_in_the_engine(handles: Any) -> None:
    it = handles(model_json={"ttft_s": 600}).start()
    outlet = it.ask()
    outlet.cancelled = True
    assert outlet.failure() == Failure("CANCELLED", "the client cancelled the request after 0 tokens")


@pytest.mark.slow
def test_retiring_lets_streams_finish_for_a_while_and_cancels_the_rest(
    handles: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = handles(model_json={"step_s": 0.01}).start()
    short, endless = it.ask(max_tokens=3), it.ask(max_tokens=1_000_000)
    monkeypatch.setattr(engine_handle, "_DRAIN_S", 0.5)
    it.handle.retire()
    assert short.ended.is_set()
    assert short.sent[-1].failure is None
    failure = endless.failure()
    assert failure.code == "CANCELLED"
    assert failure.message.startswith("the model is being unloaded after ")
    wait_until(lambda: it.handle.open_streams == 0)


@pytest.mark.slow
def test_a_killed_engine_fails_all_that_is_in_flight_and_comes_back(handles: Any) -> None:
    it = handles(model_json={"step_s": 0.005}, parameters=WITH_METRICS).start()
    outlets = [it.ask(max_tokens=1_000_000, stream=number % 2 == 0) for number in range(20)]
    wait_until(lambda: all(outlet.sent for outlet in outlets[::2]))
    assert value("ladder_engine_up", model="m", version="1") == 1
    os.kill(it.pid, signal.SIGKILL)
    for outlet in outlets:
        # That it takes less than 2 s is for the end-to-end tests, on a machine with nothing else to do.
        assert outlet.failure() == Failure(
            "UNAVAILABLE", f'the engine of "m" version 1 died: engine process {it.pid} was killed by SIGKILL'
        )
    assert all(outlet.text for outlet in outlets[::2])
    wait_until(lambda: it.handle.unavailable() is None)
    outlet = it.ask("back", 3)
    assert outlet.ended.wait(NEVER_S)
    assert outlet.text == "back back back "
    wait_until(lambda: value("ladder_engine_restarts_total") == 1)
    assert value("ladder_requests_failed_total") == 20
    assert value("ladder_engine_up") == 1
    assert it.failed == []


@pytest.mark.slow
def test_while_it_is_down_requests_are_refused_with_the_reason(handles: Any) -> None:
    it = handles(patience=replace(HASTY, backoff_s=(600.0,)), parameters=WITH_METRICS).start()
    os.kill(it.pid, signal.SIGKILL)
    wait_until(lambda: it.handle.unavailable())
    for _ in range(3):
        assert it.ask().failure() == Failure(
            "UNAVAILABLE",
            f'the engine of "m" version 1 is down (engine process {it.pid} was killed by SIGKILL); '
            "it is being started again: retry in some seconds",
        )
    assert value("ladder_requests_rejected_total", reason="engine_down") == 3
    assert value("ladder_engine_up") == 0


@pytest.mark.slow
def test_an_engine_given_up_is_told_once_and_says_what_to_do(
    handles: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_ENGINE_PYTHON", interpreter(tmp_path, "engine", "exit 2"))
    it = handles(patience=replace(HASTY, backoff_s=(0.01, 0.01))).start()
    os.kill(it.pid, signal.SIGKILL)
    wait_until(lambda: it.failed)
    (reason,) = it.failed
    assert reason.endswith("ended with status 2")
    assert it.ask().failure() == Failure(
        "UNAVAILABLE",
        f'the engine of "m" version 1 is down ({reason}); '
        "it is not started again: mend the cause, then load the model again",
    )


@pytest.mark.slow
def test_starts_that_come_to_nothing_count_as_restarts(
    handles: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LADDER_ENGINE_PYTHON", interpreter(tmp_path, "engine", "exit 1", "exit 1", "engine"))
    it = handles(parameters=WITH_METRICS).start()
    os.kill(it.pid, signal.SIGKILL)
    wait_until(lambda: value("ladder_engine_restarts_total") == 3)
    assert it.handle.unavailable() is None


@pytest.mark.slow
def test_stopping_finishes_what_is_in_flight(handles: Any) -> None:
    it = handles(model_json={"step_s": 0.005}).start()
    outlets = [it.ask(max_tokens=30) for _ in range(5)]
    wait_until(lambda: all(outlet.sent for outlet in outlets))
    it.handle.stop()
    for outlet in outlets:
        assert outlet.ended.is_set()
        assert outlet.sent[-1].failure is None
        assert outlet.text == "".join(mock_tokens("a b", 30))
    assert not is_running(it.pid)
    assert it.handle.unavailable() == Failure(
        "UNAVAILABLE", 'the engine of "m" version 1 is down (the model was unloaded); retry in some seconds'
    )


@pytest.mark.slow
def test_stopping_cancels_what_takes_too_long(handles: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.backends.engine_handle._DRAIN_S", 0.1)
    it = handles(model_json={"ttft_s": 600}).start()
    outlet = it.ask()
    it.handle.stop()
    assert outlet.failure() == Failure("CANCELLED", "the model is being unloaded after 0 tokens", "unloading")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("described", "environment", "error", "text"),
    [
        ({"model_json": {"x": 1}}, {}, RuntimeError, "model.json of a mock engine: Object contains unknown field `x`"),
        ({}, {"LADDER_ENGINE_PYTHON": "/no/python"}, OSError, 'the engine\'s interpreter "/no/python" cannot be run'),
        ({"name": "n" * 90}, {}, ValueError, "a Unix socket takes 107: set TMPDIR to a shorter directory"),
    ],
)
def test_a_start_that_fails_leaves_no_thread_and_no_file(
    handles: Any,
    described: dict[str, Any],
    environment: dict[str, str],
    error: type[Exception],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, content in environment.items():
        monkeypatch.setenv(name, content)
    it = handles(**described)
    with pytest.raises(error) as caught:
        it.start()
    assert text in str(caught.value)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sender")]


@pytest.mark.slow
def test_answers_to_chats_are_handed_on(handles: Any) -> None:
    it = handles().start()
    it.handle.send(Tokenize(5, None, "x"))
    wait_until(lambda: it.tokenized)
    assert it.tokenized[0].key == 5


def test_keys_are_never_used_twice(handles: Any) -> None:
    it = handles()
    assert [it.handle.next_key() for _ in range(3)] == [1, 2, 3]


@pytest.mark.slow
def test_the_engines_counts_reach_tritons_metrics(handles: Any) -> None:
    it = handles(parameters=WITH_METRICS).start()
    outlets = [it.ask("a b c", 10) for _ in range(5)]
    for outlet in outlets:
        assert outlet.ended.wait(NEVER_S)
    wait_until(lambda: value("vllm:request_success_total", finished_reason="length") == 5)
    assert value("vllm:generation_tokens_total") == 50
    assert value("vllm:prompt_tokens_total") == 15
    assert value("vllm:inter_token_latency_seconds_count") == 45
    assert len(MetricFamily.registered["vllm:time_to_first_token_seconds"].metrics[0].observations) == 5


def test_without_the_parameter_there_are_no_metrics(handles: Any) -> None:
    handles()
    assert MetricFamily.registered == {}
