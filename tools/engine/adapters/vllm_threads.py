"""Where vLLM computes on a CPU: with how many threads, on which cores, in which process. Imports nothing of vLLM.

vLLM binds its workers' threads to the first cores, in every engine alike: engines behind one tritonserver would share
those, whatever else idles. On Linux 6.18, where a worker that yields in a loop starves its neighbours on a core, an
engine that was loaded beside a busy one did not come up for minutes. Unbound threads are spread by the scheduler.

vLLM starts a worker of its own for the sake of its threads' environment, which here has been set already. So a lone
worker stays in the engine core's process, as beside a GPU: one process less imports torch, and a step has no second
message queue to cross.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

_BINDING: Final = "VLLM_CPU_OMP_THREADS_BIND"
_THREADS: Final = "OMP_NUM_THREADS"
_EXECUTOR: Final = "distributed_executor_backend"
# By its path: the short name is what vLLM replaces.
_IN_ENGINE_CORE: Final = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
_NODES: Final = Path("/sys/devices/system/node")


def unbound_threads(variables: Mapping[str, str], cores: int, numa_nodes: int) -> dict[str, str]:
    """What to add to the environment `variables` of an engine with `cores` physical cores.

    As many threads as vLLM would bind: all cores but one, which is its scheduler's. Nothing where `variables` choose a
    binding, or with several NUMA nodes, where it pays to stay in one.
    """
    if _BINDING in variables or numa_nodes > 1:
        return {}
    return {_BINDING: "nobind", _THREADS: variables.get(_THREADS) or str(max(cores - 1, 1))}


def set_up_cpu(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Add that to the environment of this process, for those that it will start; returns the engine's arguments."""
    # A machine that does not tell its physical cores has at most as many as this process may run on.
    allowed = len(os.sched_getaffinity(0))
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    variables = unbound_threads(os.environ, cores, numa_nodes())
    os.environ.update(variables)
    return with_lone_worker(arguments) if variables else dict(arguments)


def with_lone_worker(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` with their one worker in the engine core's process; as they are with several, or an own executor."""
    workers = [arguments.get(f"{kind}_parallel_size") or 1 for kind in ("tensor", "pipeline", "data")]
    if _EXECUTOR in arguments or any(size != 1 for size in workers):
        return dict(arguments)
    return {**arguments, _EXECUTOR: _IN_ENGINE_CORE}


def numa_nodes() -> int:
    """How many this machine has; 0 where Linux does not tell."""
    return len(list(_NODES.glob("node[0-9]*")))
