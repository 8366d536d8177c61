"""Ending what an instance left behind: processes found by its id in their environment, sockets, shared memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tools.serving.instance import Instance
from tools.wire.process_group import TRACKER_S, is_resource_tracker

VARIABLE = "LADDER_INSTANCE"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's name for it
PROC = Path("/proc")

# A process that is being killed while it forks leaves its child for the next round.
_ROUNDS = 50
_PAUSE_S = 0.1


def processes_of(instance_id: str, proc: Path = PROC) -> Iterator[int]:
    """Ids of living processes that carry this instance's id, without the caller's own."""
    wanted = f"{VARIABLE}={instance_id}".encode()
    for folder in proc.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        # Ends, belongs to somebody else, or is a zombie: then its environment cannot be read or is empty.
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def sweep(instance: Instance, shared_memory: Path = SHARED_MEMORY) -> list[int]:
    """Kills every process of the instance and removes its files. Returns the ids of the processes that it killed."""
    killed = _kill_all(instance.id)
    shutil.rmtree(instance.sockets, ignore_errors=True)
    for file in shared_memory.glob(f"{instance.shared_memory}*"):
        file.unlink(missing_ok=True)
    return killed


def _kill_all(instance_id: str) -> list[int]:
    killed: dict[int, None] = {}
    trackers_until = time.monotonic() + TRACKER_S
    for _ in range(_ROUNDS):
        remaining = list(processes_of(instance_id))
        if not remaining:
            break
        if time.monotonic() < trackers_until:
            # They remove what the engines share, and end after them.
            remaining = [pid for pid in remaining if not is_resource_tracker(pid)]
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed[pid] = None
        time.sleep(_PAUSE_S)
    return list(killed)
