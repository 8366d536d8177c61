"""Killing an engine with all that it started, and without what they share staying behind.

What Python processes share (vLLM's message queues are some hundred megabytes in /dev/shm, beside semaphores) is removed
by their resource tracker, a process of the same group that waits for the last of them to end, however it ends. Killed
along with them it removes nothing, so it is left to end by itself.

Standard library only: the supervisor above tritonserver uses it too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
# How multiprocessing starts it, in every Python from 3.8 on.
_TRACKER: Final = b"from multiprocessing.resource_tracker import main"
_POLL_S: Final = 0.01
# A process inside a system call of the kernel's may take its time to go.
_KILL_S: Final = 5.0
# It works for milliseconds; what it waits for in vain is a process that has left the group and holds on to its pipe.
TRACKER_S: Final = 2.0


def is_resource_tracker(pid: int) -> bool:
    """Whether a process removes what other Python processes share; False for one that is gone."""
    try:
        return _TRACKER in (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return False


def kill_others(group: int) -> None:
    """Kill the group's processes, save the caller and resource trackers; returns when they are gone."""
    until = time.monotonic() + _KILL_S
    # More than once: what is killed while it forks leaves a child behind.
    while others := [pid for pid in _members(group) if not is_resource_tracker(pid)]:
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return
        time.sleep(_POLL_S)


def kill_group(group: int) -> None:
    """Kill a group that the caller is not in; returns when its trackers have done their work, TRACKER_S at most."""
    kill_others(group)
    until = time.monotonic() + TRACKER_S
    while any(_members(group)) and time.monotonic() < until:
        time.sleep(_POLL_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _members(group: int) -> Iterator[int]:
    """Ids of the group's living processes, without the caller's."""
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            # Ended meanwhile.
            with contextlib.suppress(OSError):
                # pid (name) state parent group ...; a name may hold anything, brackets too.
                state, _, found = (folder / "stat").read_bytes().rpartition(b") ")[2].split()[:3]
                if int(found) == group and state != b"Z":
                    yield int(folder.name)
