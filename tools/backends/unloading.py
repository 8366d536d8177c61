"""The end of a model: taken out of service because its engine was given up, or unloaded while streams run."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import triton_python_backend_utils as pb_utils

from .model_config import ModelConfig

log = logging.getLogger(__name__)

_POLL_S = 1.0


def take_out_of_service(config: ModelConfig, reason: str) -> None:
    """Unload the model, so that readiness tells the truth.

    Unloading takes all versions of a model, so it is only done where this one stands alone.
    """
    if config.siblings:
        log.error("given up: %s; other versions of the model serve on", reason)
        return
    log.error("given up, unloading the model: %s", reason)
    try:
        pb_utils.unload_model(config.name)
    except Exception:  # outside explicit model control Triton refuses, with an exception of a type of its own
        log.exception("the model cannot be unloaded: its requests fail with UNAVAILABLE one by one")


class _Streams(Protocol):
    """The streams of a model, wherever they are answered."""

    @property
    def open_streams(self) -> int: ...

    def retire(self) -> None: ...


class UnloadWatch:
    """Sees that the model is being unloaded while streams still run, and has what remains of them cancelled in time.

    Triton tells a backend only with finalize(), which comes after the last stream has ended by itself: for a long
    answer minutes later, with a model that holds its memory and answers nobody. So the server is asked, as long as
    there are streams. A model that is loaded anew in place stays ready throughout: its old streams run to their end.
    """

    def __init__(self, config: ModelConfig, engine: _Streams) -> None:
        self._config = config
        self._engine = engine
        self._stopped = threading.Event()
        # Not joined: it may be asking a server that no longer answers.
        threading.Thread(target=self._run, name="unload-watch", daemon=True).start()

    def stop(self) -> None:
        """No further question is asked."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_S):
            # A model with streams has been ready: it was not asked before it was.
            if self._engine.open_streams and not self._is_ready():
                log.info("the model is being unloaded: streams that run on for long are cancelled")
                self._engine.retire()
                return

    def _is_ready(self) -> bool:
        return bool(pb_utils.is_model_ready(model_name=self._config.name, model_version=self._config.version))
