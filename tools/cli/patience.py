"""What to say while nothing is heard from a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.text import Text

_SLOW_S: Final = 2.0


@contextmanager
def said_when_slow(console: Console, text: str) -> Iterator[None]:
    """Print `text` once if the block has not ended after two seconds."""
    timer = threading.Timer(_SLOW_S, lambda: console.print(Text(text, style="dim"), soft_wrap=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
