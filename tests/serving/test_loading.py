"""Loads against a scripted server: what is asked for, when, and what becomes of failures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tools.client.address import Endpoint, Protocol
from tools.serving.loading import Loading
from tools.serving.repository import LoadPlan, RepositoryModel

PLAN = LoadPlan(
    (
        RepositoryModel("llm", backend="vllm"),
        RepositoryModel("tokenizer"),
        RepositoryModel("chat", ("tokenizer", "llm")),
        RepositoryModel("outer", ("chat",)),
    )
)


class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Takes loads, and ends each when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun: list[str] = []
        self.begins = threading.Event()
        self.begins.set()
        self._ends = {model.name: threading.Event() for model in PLAN.models}
        self._failures: dict[str, str] = {}

    def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        self.asked.append(request.model_name)
        assert self.begins.wait(20)
        self.begun.append(request.model_name)
        assert self._ends[request.model_name].wait(20)
        if failure := self._failures.get(request.model_name):
            context.abort(grpc.StatusCode.INTERNAL, failure)
        return service_pb2.RepositoryModelLoadResponse()

    def RepositoryIndex(self, request: Any, context: Any) -> Any:
        models = [service_pb2.RepositoryIndexResponse.ModelIndex(name=name, version="1") for name in self.begun]
        return service_pb2.RepositoryIndexResponse(models=models)

    def end(self, model: str, failure: str = "") -> None:
        if failure:
            self._failures[model] = failure
        self._ends[model].set()

    def end_all(self) -> None:
        for end in self._ends.values():
            end.set()


@pytest.fixture
def server() -> Iterator[Server]:
    servicer = Server()
    running = grpc.server(futures.ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, running)
    servicer.port = running.add_insecure_port("127.0.0.1:0")  # type: ignore[attr-defined]
    running.start()
    yield servicer
    servicer.end_all()
    running.stop(None).wait()


@pytest.fixture
def loading(server: Server) -> Iterator[Loading]:
    endpoint = Endpoint(Protocol.GRPC, "127.0.0.1", server.port)  # type: ignore[attr-defined]
    with Loading(PLAN, endpoint) as loading:
        yield loading


def wait_until(loading: Loading, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        assert not loading.done or condition()
        time.sleep(0.01)


def test_engines_load_side_by_side_and_ensembles_after_their_steps(server: Server, loading: Loading) -> None:
    wait_until(loading, lambda: len(server.asked) == 2)
    assert sorted(server.asked) == ["llm", "tokenizer"]
    server.end("tokenizer")
    assert not loading.done
    server.end("llm")
    wait_until(loading, lambda: server.asked[2:] == ["chat"])
    server.end("chat")
    wait_until(loading, lambda: server.asked[3:] == ["outer"])
    server.end("outer")
    wait_until(loading, lambda: loading.done)
    assert [loading.error(model.name) for model in PLAN.models] == [""] * 4


@pytest.mark.slow
def test_no_load_overtakes_the_slowest_one(server: Server) -> None:
    server.begins.clear()
    threading.Timer(0.2, server.begins.set).start()
    with Loading(PLAN, Endpoint(Protocol.GRPC, "127.0.0.1", server.port)) as loading:  # type: ignore[attr-defined]
        assert server.begun[:1] == ["llm"]
        wait_until(loading, lambda: len(server.begun) == 2)


def test_an_ensemble_whose_step_failed_is_not_asked_for(server: Server, loading: Loading) -> None:
    server.end("tokenizer")
    server.end("llm", failure="out of memory")
    wait_until(loading, lambda: loading.done)
    assert sorted(server.asked) == ["llm", "tokenizer"]
    assert loading.error("llm") == "out of memory"
    assert loading.error("tokenizer") == ""
    assert loading.error("chat") == 'step "llm" did not load'
    assert loading.error("outer") == 'step "chat" did not load'


def test_while_a_model_loads_it_has_no_error(server: Server, loading: Loading) -> None:
    wait_until(loading, lambda: len(server.asked) == 2)
    assert loading.error("llm") == ""
    assert loading.error("unknown") == ""


def test_a_server_that_goes_away_is_the_reason(server: Server) -> None:
    nobody = Endpoint(Protocol.GRPC, "127.0.0.1", 1)
    with Loading(PLAN, nobody) as loading:
        wait_until(loading, lambda: loading.done)
        assert "failed to connect" in loading.error("llm")
