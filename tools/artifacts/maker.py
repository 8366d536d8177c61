"""Following a process that makes an artifact: its standard output is progress, its standard error goes to a log."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.artifacts.errors import ArtifactError
from tools.bootstrap.interruption import end_in_order, interruption_held

_TAIL_LINES = 15
_DISK_FULL = "No space left on device"


def follow(
    command: Sequence[str | Path],
    log: Path,
    report: Callable[[str], None],
    what: str,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Runs the command to its end; `report` gets its lines. Raises ArtifactError with the end of the log.

    `what` begins the error's text; `variables` is its environment, None for this process's own.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as errors, contextlib.ExitStack() as ending:
        with interruption_held():
            maker = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8", env=variables
            )
            # A Ctrl-C reaches the maker as well: it removes what it has written, and only then it is over.
            ending.callback(end_in_order, maker)
        for line in maker.stdout or ():
            report(line.rstrip())
        code = maker.wait()
    if code != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        full = any(_DISK_FULL in line for line in tail)
        fix = ["The disk is full: free some space and run the command again."] if full else []
        raise ArtifactError("\n".join([f"{what} could not be made:", *(f"  {line}" for line in tail), *fix]))
