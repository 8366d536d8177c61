"""CPU time of the processes of a running server, by what they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import psutil

from tools.serving.status import STUB
from tools.serving.sweep import processes_of

SERVER, STUBS, ENGINE, CLIENT = "server", "stub", "engine", "client"
ROLES = (STUBS, SERVER, ENGINE, CLIENT)


def processes_by_role(instance_id: str) -> dict[str, tuple[int, ...]]:
    """Ids of the instance's processes: tritonserver, the stubs, and the engines with everything they started."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for pid in sorted(processes_of(instance_id)):
        try:
            found[_role(psutil.Process(pid).name())].append(pid)
        except psutil.NoSuchProcess:
            continue
    return {role: tuple(pids) for role, pids in found.items()}


def cpu_seconds(processes: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """User and system time of the roles so far, all threads. Raises psutil.NoSuchProcess when one has ended."""
    return {role: sum(_seconds(pid) for pid in pids) for role, pids in processes.items()}


def _role(name: str) -> str:
    if name == "tritonserver":
        return SERVER
    # The kernel cuts a process's name at 15 characters; psutil completes it from the command line where it can.
    return STUBS if STUB.startswith(name) or name == STUB else ENGINE


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
