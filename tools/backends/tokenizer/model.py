"""Python-backend model "chat_tokenizer": a conversation or a prompt in, the engine's prompt and its tokens out.

The tokenizer runs in an engine process, because its libraries do not belong into tritonserver's stub.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from tools.backends.engine_handle import EngineHandle
from tools.backends.logs import log_to_triton
from tools.backends.model_config import ModelConfig
from tools.backends.tensors import TensorError, error_response, read_tokenize, tokenized_response
from tools.backends.unloading import take_out_of_service
from tools.wire.messages import Failure, Tokenize, Tokenized

log = logging.getLogger(__name__)

_TIMEOUT_S = 30.0
# Shorter than the shortest pause before an engine is started again, so that its death is not missed.
_POLL_S = 0.1


class TritonPythonModel:
    """One instance of the tokenizer."""

    def initialize(self, args: dict[str, str]) -> None:
        """Start the engine and wait until it is ready. Raises TritonModelException with the reason if it is not."""
        try:
            config = ModelConfig.from_arguments(args)
            log_to_triton(config.name, config.version)
            _check(config)
            self._answers = _Answers()
            self._engine = EngineHandle(
                config,
                config.adapter("tokenizer"),
                on_tokenized=self._answers.put,
                on_failed=partial(take_out_of_service, config),
            )
            welcome = self._engine.start()
        except (ValueError, OSError, RuntimeError) as error:
            raise pb_utils.TritonModelException(str(error)) from error
        log.info("%s ready: %d tokens of context; %s", welcome.engine, welcome.max_model_len, welcome.description)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response for each request, in their order."""
        read = [self._read(request) for request in requests]
        asked = [item[0] for item in read if isinstance(item, tuple)]
        answers = self._ask(asked)
        return [
            tokenized_response(answers[item[0].key], item[1]) if isinstance(item, tuple) else error_response(item)
            for item in read
        ]

    def finalize(self) -> None:
        """End the engine."""
        self._engine.stop()

    def _read(self, request: Any) -> tuple[Tokenize, bool] | Failure:
        try:
            return read_tokenize(request, self._engine.next_key())
        except TensorError as error:
            return Failure("INVALID_ARG", str(error))

    def _ask(self, messages: list[Tokenize]) -> dict[int, Tokenized]:
        """Answers by key: all messages are sent before the first answer is waited for."""
        keys = [message.key for message in messages]
        self._answers.expect(keys)
        if (failure := self._engine.unavailable()) is None:
            for message in messages:
                self._engine.send(message)
            failure = self._wait(keys)
        return self._answers.take(keys, failure)

    def _wait(self, keys: list[int]) -> Failure:
        """Wait for all answers; what those that do not come in time are to be told."""
        until = time.monotonic() + _TIMEOUT_S
        while not self._answers.wait(keys, _POLL_S):
            if failure := self._engine.unavailable():
                return failure
            if time.monotonic() > until:
                break
        return Failure("UNAVAILABLE", f"the tokenizer's engine did not answer within {_TIMEOUT_S:g} s: retry later")


class _Answers:
    """What the engine has answered and nobody has taken yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: dict[int, Tokenized | None] = {}

    def expect(self, keys: Iterable[int]) -> None:
        """Answers to other keys are dropped: they come too late."""
        with self._changed:
            self._answers.update(dict.fromkeys(keys))

    def put(self, tokenized: Tokenized) -> None:
        with self._changed:
            if tokenized.key in self._answers:
                self._answers[tokenized.key] = tokenized
                self._changed.notify_all()

    def wait(self, keys: Iterable[int], seconds: float) -> bool:
        """Whether all answers are there within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: all(self._answers[key] is not None for key in keys), seconds)

    def take(self, keys: Iterable[int], failure: Failure) -> dict[int, Tokenized]:
        """The answers by key; `failure` stands in for those that did not come."""
        with self._changed:
            return {key: self._answers.pop(key) or Tokenized(key, "", [], failure) for key in keys}


def _check(config: ModelConfig) -> None:
    if config.decoupled:
        raise ValueError(
            f'"{config.name}" answers each request once: leave model_transaction_policy out of config.pbtxt'
        )
    config.require_unbatched("because engines without a batch dimension take its outputs as they are")
