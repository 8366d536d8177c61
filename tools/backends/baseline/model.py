"""Python-backend model "llm_baseline": transformers' `generate`, in an engine process of its own.

Unlike the vLLM backend, execute() returns only when its requests have ended. Triton then sees a busy instance, so its
dynamic batcher gathers what comes meanwhile, and its queue policy (size, timeout) is real.

It returns just before the last response is sent, not after. A client that asks again at once would find the instance
still busy, and Triton's batcher looks at such a lone request, fewer than the preferred size, only when its own timer of
500 ms has run out.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - or the stub does after the first execute(), and the instance stays busy for 50 ms
import logging
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from tools.backends.delivery import Outlet
from tools.backends.engine_handle import EngineHandle
from tools.backends.logs import log_to_triton
from tools.backends.model_config import ModelConfig
from tools.backends.tensors import ResponseOutlet, TensorError, read_request, refuse
from tools.backends.unloading import UnloadWatch, take_out_of_service
from tools.wire.messages import Delta, Request

log = logging.getLogger(__name__)


class TritonPythonModel:
    """One version of the baseline; "batching" in its model.json says whether a batch is generated together."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine and wait until it is ready. Raises TritonModelException with the reason if it is not."""
        try:
            config = ModelConfig.from_arguments(args)
            log_to_triton(config.name, config.version)
            _check(config)
            self._together = config.arguments.get("batching") is True
            self._engine = EngineHandle(
                _with_batch_size(config),
                config.adapter("transformers"),
                on_failed=partial(take_out_of_service, config),
            )
            welcome = self._engine.start()
            self._unload_watch = UnloadWatch(config, self._engine)
        except (ValueError, OSError, RuntimeError) as error:
            raise pb_utils.TritonModelException(str(error)) from error
        log.info("%s ready: %d tokens of context; %s", welcome.engine, welcome.max_model_len, welcome.description)

    def execute(self, requests: list[Any]) -> None:
        """Generate for all of `requests`, together or one after the other; returns as the last one ends."""
        gathered = _Gathered()
        streams: list[tuple[Request, Outlet]] = []
        for request in requests:
            try:
                wire = read_request(request, self._engine.next_key())
            except TensorError as error:
                refuse(request, error)
                continue
            streams.append((wire, gathered.outlet(ResponseOutlet(request, wire, batched=True))))
        self._engine.submit(streams, together=self._together)
        gathered.wait()

    def finalize(self) -> None:
        """Drain the engine and end it."""
        self._unload_watch.stop()
        self._engine.stop()


class _Gathered:
    """The requests of one execute() call whose final response is still to come."""

    def __init__(self) -> None:
        self._open = 0
        self._changed = threading.Condition()

    def outlet(self, outlet: Outlet) -> Outlet:
        """`outlet`, counted until its final response is there to be sent."""
        with self._changed:
            self._open += 1
        return _CountedOutlet(outlet, self)

    def ended(self) -> None:
        with self._changed:
            self._open -= 1
            self._changed.notify()

    def wait(self) -> None:
        """Return when all have ended. Every stream does, whatever becomes of the engine."""
        with self._changed:
            self._changed.wait_for(lambda: self._open == 0)


class _CountedOutlet:
    def __init__(self, outlet: Outlet, gathered: _Gathered) -> None:
        self._outlet = outlet
        self._gathered = gathered

    def send(self, delta: Delta) -> None:
        if delta.final:
            self._gathered.ended()
        self._outlet.send(delta)

    def is_cancelled(self) -> bool:
        return self._outlet.is_cancelled()


def _with_batch_size(config: ModelConfig) -> ModelConfig:
    """The engine is told how many requests can come together."""
    return replace(config, parameters={**config.parameters, "MAX_BATCH_SIZE": str(config.max_batch_size)})


def _check(config: ModelConfig) -> None:
    config.require_decoupled()
    if config.max_batch_size < 1:
        raise ValueError(
            f'"{config.name}" has max_batch_size {config.max_batch_size}: write 1 or more, because its requests are '
            "gathered by Triton's dynamic batcher"
        )
