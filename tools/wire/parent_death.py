"""Children that do not outlive the process that started them: one that is killed has no time to end them itself.

Standard library only: the supervisor above tritonserver uses it too.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def dying_with_this_process(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """What a child runs before it becomes another program (`preexec_fn`): it gets the signal when this process ends."""
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)

    return ask
