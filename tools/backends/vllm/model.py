"""Triton backend "vllm": requests go to an engine process of their own, deltas come back as decoupled responses.

The same model directory runs on NVIDIA's vLLM backend: tensors, parameters and model.json are theirs. The engine lives
outside this process, because here everything shares one interpreter lock with the sending of responses.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

# tritonserver loads this file by its path, so the package it belongs to has to be found first.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tools.backends.engine_handle import EngineHandle
from tools.backends.logs import log_to_triton
from tools.backends.model_config import ModelConfig
from tools.backends.tensors import ResponseOutlet, TensorError, read_request, refuse
from tools.backends.unloading import UnloadWatch, take_out_of_service

log = logging.getLogger(__name__)


class TritonPythonModel:
    """One instance of a model with `backend: "vllm"`."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine and wait until it is ready. Raises TritonModelException with the reason if it is not."""
        try:
            config = ModelConfig.from_arguments(args)
            log_to_triton(config.name, config.version)
            _check(config)
            self._engine = EngineHandle(config, config.adapter("vllm"), on_failed=partial(take_out_of_service, config))
            welcome = self._engine.start()
            self._unload_watch = UnloadWatch(config, self._engine)
        except (ValueError, OSError, RuntimeError) as error:
            raise pb_utils.TritonModelException(str(error)) from error
        log.info(
            "%s ready: %d sequences at once, %d tokens of context %s",
            welcome.engine, welcome.max_num_seqs, welcome.max_model_len, welcome.description,
        )  # fmt: skip

    def execute(self, requests: list[Any]) -> None:
        """Hand the requests to the engine and return; responses follow from the sender threads."""
        streams = []
        for request in requests:
            try:
                wire = read_request(request, self._engine.next_key())
            except TensorError as error:
                refuse(request, error)
                continue
            streams.append((wire, ResponseOutlet(request, wire, batched=False)))
        self._engine.submit(streams)

    def finalize(self) -> None:
        """Drain the engine and end it."""
        self._unload_watch.stop()
        self._engine.stop()


def _check(config: ModelConfig) -> None:
    config.require_decoupled()
    config.require_unbatched("because vLLM batches by itself")
    gpus = _size(config, "tensor_parallel_size") * _size(config, "pipeline_parallel_size")
    if config.kind == "GPU" and gpus > 1:
        raise ValueError(
            f'"{config.name}" needs {gpus} GPUs, but KIND_GPU gives an instance one: write KIND_MODEL in config.pbtxt'
        )


def _size(config: ModelConfig, name: str) -> int:
    size = config.arguments.get(name, 1)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(
            f'model.json of "{config.name}": "{name}" is {json.dumps(size)}: write a whole number, 1 or more'
        )
    return size
