"""Waiting in tests: generous, so that a slow machine passes and only a hang fails."""

from __future__ import annotations

import time
from collections.abc import Callable

NEVER_S = 30.0


def wait_until(holds: Callable[[], object], seconds: float = NEVER_S, words: Callable[[], str] = str) -> None:
    """Return as soon as `holds()` is true; fail after `seconds`, with the `words` of what was waited for."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"still not true after {seconds:g} s {words()}"
        time.sleep(0.005)
