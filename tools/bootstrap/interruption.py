"""Starting processes that nobody can lose sight of, and ending them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruption_held() -> Iterator[None]:
    """A Ctrl-C, or another signal with a handler that ends the command, comes at the end of the block instead.

    For starting a process and noting who ends it. KeyboardInterrupt raised while subprocess.Popen starts one leaves it
    running with nobody who knows its id, and a busy machine spends a while there.
    """
    # Handlers run in the main thread, so nothing interrupts another one.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: handler for number in _ENDING if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def end_in_order(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """SIGTERM for a process that still runs; returns when it has cleared up and is over, however long that takes."""
    if process.poll() is None:
        process.terminate()
        process.wait()
