"""Python's logging, into tritonserver's own log."""

from __future__ import annotations

import logging

import triton_python_backend_utils as pb_utils


class TritonLogHandler(logging.Handler):
    """Writes records with Triton's logger, prefixed with the model version that says them."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def emit(self, record: logging.LogRecord) -> None:
        message = f"[{self._prefix}] {self.format(record)}"
        if record.levelno >= logging.ERROR:
            pb_utils.Logger.log_error(message)
        elif record.levelno >= logging.WARNING:
            pb_utils.Logger.log_warn(message)
        else:
            pb_utils.Logger.log_info(message)


def log_to_triton(model: str, version: str) -> None:
    """Send this process's log records of level INFO and above to Triton's log."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.handlers = [TritonLogHandler(f"{model}:{version}")]
