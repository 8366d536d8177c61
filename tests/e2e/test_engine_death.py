"""Engines that die: requests in flight fail with the reason, the engine comes back, or the model is given up."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest

from tests.e2e import repository
from tests.e2e.asking import Model, Outputs, RefusedError, Triton, Way, grpc_request, http_body, tokens_of
from tests.e2e.deployment import LOAD_S, Deployment
from tests.e2e.metrics import Scrape, at_rest, settled
from tests.e2e.rungs import LLM, sampling
from tools.engine.adapters.vllm_threads import numa_nodes

STREAMS = 16
# All streams have to have failed by then; the aim is 2 s, on a machine that is not this busy.
FAIL_S = 30.0
SLOW = Model(repository.SLOW_MOCK)
DYING = Model(repository.DYING_MOCK)

ENDLESS = {
    "text_input": "Tell me everything: ",
    "stream": True,
    "sampling_parameters": sampling(1000, ignore_eos=True),
    "return_num_output_tokens": True,
}


def engine(server: Deployment) -> psutil.Process:
    found = server.engine_of(LLM.name)
    assert found is not None
    return found


def below(server: Deployment, name: str) -> psutil.Process:
    """The process that vLLM has given this name."""
    return next(child for child in engine(server).children(recursive=True) if name in " ".join(child.cmdline()))


def shared_memory_of(processes: list[psutil.Process]) -> set[Path]:
    """What Python processes share: files in /dev/shm by names that multiprocessing makes up."""
    maps = [mapped.path for process in processes for mapped in process.memory_maps()]
    return {Path(path) for path in maps if path.startswith("/dev/shm/psm_")}


@pytest.mark.skipif(numa_nodes() > 1, reason="vLLM binds threads to one of several NUMA nodes")
def test_no_core_is_every_engines_alone(server: Deployment) -> None:
    """Bound to the first core, an engine that loads waits for minutes beside a busy one."""
    allowed = psutil.Process().cpu_affinity()
    assert below(server, "VLLM::Worker").cpu_affinity() == allowed
    assert below(server, "VLLM::EngineCore").cpu_affinity() == allowed


VICTIMS: dict[str, Callable[[Deployment], psutil.Process]] = {
    "engine": engine,
    "engine core": lambda server: below(server, "VLLM::EngineCore"),
    "worker": lambda server: below(server, "VLLM::Worker"),
}


class Streams:
    """Streams that run until somebody ends them, half of them over each protocol."""

    def __init__(self, triton: Triton, count: int) -> None:
        self._triton = triton
        self._begun = threading.Semaphore(0)
        self._count = count
        self._pool = ThreadPoolExecutor(count)
        self._futures = [self._pool.submit(self._read, number) for number in range(count)]

    def wait_until_all_have_begun(self) -> None:
        for _ in range(self._count):
            assert self._begun.acquire(timeout=LOAD_S)

    def failures(self) -> list[RefusedError]:
        """How each ended. One that has not ended in time fails the test."""
        return [future.result(timeout=FAIL_S) for future in self._futures]

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def _read(self, number: int) -> RefusedError:
        try:
            responses: list[Outputs] = []
            for response in self._open(number):
                if not responses:
                    self._begun.release()
                responses.append(response)
        except RefusedError as error:
            return error
        raise AssertionError(f"stream {number} ended as if nothing were wrong, after {len(responses)} responses")

    def _open(self, number: int) -> Iterator[Outputs]:
        if number % 2:
            return self._triton.sse(LLM, http_body(ENDLESS))
        return self._triton.grpc_stream(grpc_request(LLM, ENDLESS))


@pytest.mark.parametrize("victim", VICTIMS)
def test_streams_fail_with_the_reason_and_the_engine_comes_back(
    server: Deployment, triton: Triton, victim: str
) -> None:
    before = at_rest(server.address, LLM.name)
    old = engine(server)
    family = [old, *old.children(recursive=True)]
    shared = shared_memory_of(family)
    assert shared, "vLLM's message queues"
    streams = Streams(triton, STREAMS)
    try:
        streams.wait_until_all_have_begun()
        VICTIMS[victim](server).kill()
        failures = streams.failures()
    finally:
        streams.close()
    assert all(failure.message.startswith('the engine of "llm_bf16" version 1 died: ') for failure in failures)
    assert {failure.code for failure in failures} == {"UNAVAILABLE", "200"}
    assert all(failure.responses for failure in failures), "what was generated before is the client's"
    if victim == "engine":
        assert f"engine process {old.pid} was killed by SIGKILL" in failures[0].message
    if Scrape.of(server.address, LLM.name)["ladder_engine_up"] == 0:
        with pytest.raises(RefusedError, match="retry in some seconds") as caught:
            triton.ask(Way.GRPC, LLM, ENDLESS)
        assert caught.value.code == "UNAVAILABLE"
    # Not the gauge alone: an engine that tells of its own death is still being buried when its streams have failed.
    back = settled(
        server.address,
        LLM.name,
        lambda now: now["ladder_engine_up"] == 1 and now.since(before)["ladder_engine_restarts_total"] > 0,
        seconds=LOAD_S,
    )
    counted = back.since(before)
    assert counted["ladder_engine_restarts_total"] == 1
    assert counted["ladder_requests_failed_total"] == STREAMS
    inputs = {"text_input": "The capital of France is", "sampling_parameters": sampling(4)}
    assert triton.ask(Way.GENERATE, LLM, inputs) == [{"text_output": ["The capital of France is Paris.\n\n"]}]
    # Nothing of the old one is left, whichever of its processes was killed.
    gone, alive = psutil.wait_procs(family, timeout=FAIL_S)
    assert not alive, f"left after {gone}"
    assert not [file for file in shared if file.exists()]
    at_rest(server.address, LLM.name)


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
