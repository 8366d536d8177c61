"""Engines that die: requests in flight fail with the reason, the engine comes back, or the model is given up."""

from __future__ import annotations

import os
import signal
import time

import grpc
import psutil
import pytest

from tests.e2e import repository
from tests.e2e.asking import Model, RefusedError, Triton, Way, grpc_request, tokens_of
from tests.e2e.deployment import LOAD_S, Deployment
from tests.e2e.dying import FAIL_S, below, check_that_it_comes_back, engine
from tests.e2e.rungs import LLM, sampling
from tools.engine.adapters.vllm_threads import numa_nodes

STREAMS = 16
SLOW = Model(repository.SLOW_MOCK)
DYING = Model(repository.DYING_MOCK)


@pytest.mark.skipif(numa_nodes() > 1, reason="vLLM binds threads to one of several NUMA nodes")
def test_no_core_is_every_engines_alone(server: Deployment) -> None:
    """Bound to the first core, an engine that loads waits for minutes beside a busy one."""
    assert below(server, LLM, "VLLM::EngineCore").cpu_affinity() == psutil.Process().cpu_affinity()


@pytest.mark.skipif(numa_nodes() > 1, reason="vLLM binds the threads of a process of its own to a NUMA node")
def test_a_lone_worker_is_no_process_of_its_own(server: Deployment) -> None:
    names = [" ".join(child.cmdline()) for child in engine(server, LLM).children(recursive=True)]
    assert [name.strip() for name in names if name.startswith("VLLM::")] == ["VLLM::EngineCore"]


@pytest.mark.parametrize("name", ["engine", "engine core"])
def test_streams_fail_with_the_reason_and_the_engine_comes_back(server: Deployment, triton: Triton, name: str) -> None:
    """A worker that is a process of its own is in test_float32.py."""
    victim = engine(server, LLM) if name == "engine" else below(server, LLM, "VLLM::EngineCore")
    check_that_it_comes_back(server, triton, LLM, victim, STREAMS)


def test_unloading_finishes_what_runs_and_loading_serves_again(server: Deployment, triton: Triton) -> None:
    with server.loaded(SLOW.name):
        # 2 s of the mock's time: within what an unload waits for.
        request = grpc_request(
            SLOW,
            {
                "text_input": "tick",
                "stream": True,
                "sampling_parameters": sampling(40),
                "return_num_output_tokens": True,
            },
        )
        running = triton.grpc_stream(request)
        first = next(running)
        server.unload(SLOW.name)
        with pytest.raises(RefusedError, match="mock_slow"):
            triton.ask(Way.GRPC, SLOW, {"text_input": "tick"})
        assert tokens_of([first, *running]) == 40
    assert not server.is_ready(SLOW.name)
    with server.loaded(SLOW.name):
        assert tokens_of(list(triton.grpc_stream(request))) == 40


def test_unloading_does_not_wait_for_ever(server: Deployment, triton: Triton) -> None:
    with server.loaded(SLOW.name):
        process = server.engine_of(SLOW.name)
        assert process is not None
        inputs = {"text_input": "tick", "stream": True, "sampling_parameters": sampling(repository.ENDLESS_TOKENS)}
        running = triton.grpc_stream(grpc_request(SLOW, inputs))
        next(running)
        server.unload(SLOW.name)
        with pytest.raises(RefusedError) as caught:
            list(running)
        assert caught.value.code == "CANCELLED"
        assert caught.value.message.startswith("the model is being unloaded after ")
        process.wait(FAIL_S)


def test_an_engine_that_dies_again_and_again_is_given_up(server: Deployment, triton: Triton) -> None:
    server.load(DYING.name)
    try:
        stub = server.stub_of(DYING.name)
        until = time.monotonic() + LOAD_S
        failures = set()
        while server.is_ready(DYING.name):
            assert time.monotonic() < until, f"still ready: {failures}"
            try:
                inputs = {"text_input": "tick", "sampling_parameters": sampling(repository.DYING_MOCK_TOKENS + 5)}
                triton.ask(Way.GRPC, DYING, inputs)
            except RefusedError as error:
                failures.add(error.code)
            time.sleep(0.1)
        assert "UNAVAILABLE" in failures
        # Quiet: no process of it is left to try again, and the log says nothing more about it.
        stub.wait(FAIL_S)
        # tritonserver's own last word on the model follows the end of its stub.
        time.sleep(3)
        said = server.log.count(DYING.name)
        time.sleep(3)
        assert server.log.count(DYING.name) == said
        assert "given up, unloading the model: " in server.log
        with pytest.raises(RefusedError, match=DYING.name):
            triton.ask(Way.GRPC, DYING, {"text_input": "tick"})
    finally:
        try:
            server.unload(DYING.name)
        except grpc.RpcError:
            assert not server.is_ready(DYING.name)


@pytest.mark.parametrize("model", ["llm_baseline", "chat_tokenizer"])
def test_the_engines_of_python_models_come_back_too(server: Deployment, triton: Triton, model: str) -> None:
    version = 2 if model == "llm_baseline" else 1
    old = server.engine_of(model, version)
    assert old is not None
    os.kill(old.pid, signal.SIGKILL)
    inputs = {"text_input": "The capital of France is"}
    until = time.monotonic() + LOAD_S
    while True:
        try:
            if model == "chat_tokenizer":
                assert triton.infer(Model(model), inputs)["num_input_tokens"] == [5]
            else:
                asked = Model(model, str(version), batched=True)
                triton.ask(Way.GRPC, asked, inputs | {"sampling_parameters": sampling(2)})
            break
        except RefusedError as error:
            refusal = error
        assert refusal.code == "UNAVAILABLE"
        assert f'the engine of "{model}" version {version} ' in refusal.message
        assert time.monotonic() < until, refusal
        time.sleep(0.2)
    new = server.engine_of(model, version)
    assert new is not None
    assert new.pid != old.pid
