"""What becomes of a model whose engine has been given up for good."""

from __future__ import annotations

import logging

import triton_python_backend_utils as pb_utils

from .model_config import ModelConfig

log = logging.getLogger(__name__)


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
