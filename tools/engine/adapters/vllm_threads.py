"""How many threads vLLM computes with on a CPU, and that they may run on any core. Imports nothing of vLLM.

vLLM binds its workers' threads to the first cores, in every engine alike: engines behind one tritonserver would share
those, whatever else idles. On Linux 6.18, where a worker that yields in a loop starves its neighbours on a core, an
engine that was loaded beside a busy one did not come up for minutes. Unbound threads are spread by the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

_BINDING: Final = "VLLM_CPU_OMP_THREADS_BIND"
_THREADS: Final = "OMP_NUM_THREADS"
_NODES: Final = Path("/sys/devices/system/node")


def unbound_threads(variables: Mapping[str, str], cores: int, numa_nodes: int) -> dict[str, str]:
    """What to add to the environment `variables` of an engine with `cores` physical cores.

    As many threads as vLLM would bind: all cores but one, which is its scheduler's. Nothing where `variables` choose a
    binding, or with several NUMA nodes, where it pays to stay in one.
    """
    if _BINDING in variables or numa_nodes > 1:
        return {}
    return {_BINDING: "nobind", _THREADS: variables.get(_THREADS) or str(max(cores - 1, 1))}


def unbind_threads() -> None:
    """Add that to the environment of this process, for the workers that it will start."""
    # A machine that does not tell its physical cores has at most as many as this process may run on.
    allowed = len(os.sched_getaffinity(0))
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    os.environ.update(unbound_threads(os.environ, cores, numa_nodes()))


def numa_nodes() -> int:
    """How many this machine has; 0 where Linux does not tell."""
    return len(list(_NODES.glob("node[0-9]*")))
