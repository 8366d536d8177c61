"""The most memory that an engine of several processes has held."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psutil


class ProcessTreeMemory:
    """Resident memory of this process and of those it had started by the time this was made.

    Each process counts at its own peak, pages of shared libraries in each that maps them.
    """

    def __init__(self, pids: Iterable[int], proc: Path = Path("/proc")) -> None:
        self._statuses = [proc / str(pid) / "status" for pid in pids]

    @classmethod
    def of_this_process(cls) -> ProcessTreeMemory:
        return cls([os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))])

    def peak_bytes(self) -> int:
        """The sum over those that still live."""
        return sum(map(_peak_bytes, self._statuses))


def _peak_bytes(status: Path) -> int:
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
