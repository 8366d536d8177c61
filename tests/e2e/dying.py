"""Engines with streams on them whose processes a test kills."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.e2e.asking import Model, Outputs, RefusedError, Triton, Way, grpc_request, http_body
from tests.e2e.deployment import LOAD_S, Deployment
from tests.e2e.metrics import Scrape, at_rest, settled
from tests.e2e.rungs import sampling

# All streams have to have failed by then; the aim is 2 s, on a machine that is not this busy.
FAIL_S = 30.0

ENDLESS = {
    "text_input": "Tell me everything: ",
    "stream": True,
    "sampling_parameters": sampling(1000, ignore_eos=True),
    "return_num_output_tokens": True,
}


def engine(server: Deployment, model: Model) -> psutil.Process:
    found = server.engine_of(model.name)
    assert found is not None
    return found


def below(server: Deployment, model: Model, name: str) -> psutil.Process:
    """The process that vLLM has given this name."""
    return next(child for child in engine(server, model).children(recursive=True) if name in " ".join(child.cmdline()))


def shared_memory_of(processes: list[psutil.Process]) -> set[Path]:
    """What Python processes share: files in /dev/shm by names that multiprocessing makes up."""
    maps = [mapped.path for process in processes for mapped in process.memory_maps()]
    return {Path(path) for path in maps if path.startswith("/dev/shm/psm_")}


class Streams:
    """Streams that run until somebody ends them, half of them over each protocol."""

    def __init__(self, triton: Triton, model: Model, count: int) -> None:
        self._triton = triton
        self._model = model
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
            return self._triton.sse(self._model, http_body(ENDLESS))
        return self._triton.grpc_stream(grpc_request(self._model, ENDLESS))


def check_that_it_comes_back(
    server: Deployment, triton: Triton, model: Model, victim: psutil.Process, streams: int
) -> None:
    """Kill `victim`, a process of the model's engine, under `streams` streams. They fail with the reason, a new engine
    takes over, and of the old one neither a process nor shared memory is left.
    """
    before = at_rest(server.address, model.name)
    old = engine(server, model)
    family = [old, *old.children(recursive=True)]
    shared = shared_memory_of(family)
    running = Streams(triton, model, streams)
    try:
        running.wait_until_all_have_begun()
        victim.kill()
        failures = running.failures()
    finally:
        running.close()
    assert all(failure.message.startswith(f'the engine of "{model.name}" version 1 died: ') for failure in failures)
    assert {failure.code for failure in failures} == {"UNAVAILABLE", "200"}
    assert all(failure.responses for failure in failures), "what was generated before is the client's"
    if victim == old:
        assert f"engine process {old.pid} was killed by SIGKILL" in failures[0].message
    if Scrape.of(server.address, model.name)["ladder_engine_up"] == 0:
        with pytest.raises(RefusedError, match="retry in some seconds") as caught:
            triton.ask(Way.GRPC, model, ENDLESS)
        assert caught.value.code == "UNAVAILABLE"
    # Not the gauge alone: an engine that tells of its own death is still being buried when its streams have failed.
    back = settled(
        server.address,
        model.name,
        lambda now: now["ladder_engine_up"] == 1 and now.since(before)["ladder_engine_restarts_total"] > 0,
        seconds=LOAD_S,
    )
    counted = back.since(before)
    assert counted["ladder_engine_restarts_total"] == 1
    assert counted["ladder_requests_failed_total"] == streams
    inputs = {"text_input": "The capital of France is", "sampling_parameters": sampling(4)}
    assert triton.ask(Way.GENERATE, model, inputs) == [{"text_output": ["The capital of France is Paris.\n\n"]}]
    # Nothing of the old one is left, whichever of its processes was killed.
    gone, alive = psutil.wait_procs(family, timeout=FAIL_S)
    assert not alive, f"left after {gone}"
    assert not [file for file in shared if file.exists()]
    at_rest(server.address, model.name)
