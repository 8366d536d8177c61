"""Reading a log while it is being written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

_POLL_S = 0.2


def follow(file: Path, last: int, is_written: Callable[[], bool]) -> Iterator[str]:
    """The last lines of a file, then each further one, until nobody writes it any more.

    A file that is started anew (by another start of the server) is read from its beginning.
    """
    with file.open(encoding="utf-8", errors="replace") as content:
        lines = content.readlines()
        # A line that is still being written comes with its end.
        partial = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        yield from (line.rstrip("\n") for line in lines[max(0, len(lines) - last) :])
        while True:
            writing = is_written()
            while piece := content.readline():
                partial += piece
                if partial.endswith("\n"):
                    yield partial.rstrip("\n")
                    partial = ""
            if not writing:
                if partial:
                    yield partial
                return
            if file.stat().st_size < content.tell():
                content.seek(0)
            time.sleep(_POLL_S)
