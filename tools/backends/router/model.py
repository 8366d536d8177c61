"""Python-backend model "chat", the release router: what a client asks is answered by the target that its release picks.

Tensors are those of the tokenizer and of the vLLM contract, so a client changes nothing but the model's name.
"""

from __future__ import annotations

import json
import logging
import os
import time
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from tools.backends.logs import log_to_triton
from tools.backends.model_config import ModelConfig
from tools.backends.router.attempts import Stream
from tools.backends.router.router import Router
from tools.backends.tensors import RoutedOutlet, TensorError, read_chat, refuse, request_parameters
from tools.backends.unloading import UnloadWatch, take_out_of_service

log = logging.getLogger(__name__)


class TritonPythonModel:
    """One instance of the router."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the router's engine and wait until it has a release. Raises TritonModelException with the reason."""
        try:
            config = ModelConfig.from_arguments(args)
            log_to_triton(config.name, config.version)
            _check(config)
            self._router = Router(config, on_failed=partial(take_out_of_service, config))
            welcome = self._router.start()
            self._unload_watch = UnloadWatch(config, self._router)
        except (ValueError, OSError, RuntimeError) as error:
            raise pb_utils.TritonModelException(str(error)) from error
        log.info("%s ready: %d tokens of context; %s", welcome.engine, welcome.max_model_len, welcome.description)

    def execute(self, requests: list[Any]) -> None:
        """Take the requests and return; responses follow from the sender threads."""
        arrived = time.monotonic()
        for request in requests:
            try:
                wire, tokenize = read_chat(request, self._router.next_key())
                parameters = json.loads(request_parameters(request))
            except TensorError as error:
                refuse(request, error)
                continue
            self._router.submit(Stream(wire, RoutedOutlet(request, wire), parameters, arrived), tokenize)

    def finalize(self) -> None:
        """Finish what is in flight and let go of the engines."""
        self._unload_watch.stop()
        self._router.stop()


def _check(config: ModelConfig) -> None:
    config.require_decoupled()
    config.require_unbatched("because its requests go to engines one by one")
    if not os.environ.get("LADDER_SOCKETS"):
        raise ValueError(
            f'"{config.name}" finds the engines of its targets in the folder LADDER_SOCKETS, which is not set: start '
            "tritonserver with it, ./ladder up does"
        )
