from __future__ import annotations

import os
import pkgutil
from pathlib import Path

import pytest

from tools.engine.adapters.vllm_threads import set_up_cpu, unbound_threads, with_lone_worker

IN_ENGINE_CORE = "vllm.v1.executor.uniproc_executor.UniProcExecutor"


def test_threads_are_as_many_as_vllm_would_bind_and_run_anywhere() -> None:
    assert unbound_threads({}, cores=8, numa_nodes=1) == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "7"}
    assert unbound_threads({}, cores=1, numa_nodes=1)["OMP_NUM_THREADS"] == "1"


def test_what_the_environment_says_stays() -> None:
    assert unbound_threads({"VLLM_CPU_OMP_THREADS_BIND": "0-3"}, cores=8, numa_nodes=1) == {}
    assert unbound_threads({"OMP_NUM_THREADS": "2"}, cores=8, numa_nodes=1)["OMP_NUM_THREADS"] == "2"


def test_on_several_numa_nodes_vllm_binds_them() -> None:
    assert unbound_threads({}, cores=64, numa_nodes=2) == {}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three cores, and an empty environment; the folder of its NUMA nodes."""
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr("psutil.cpu_count", lambda logical: None)
    monkeypatch.setattr("tools.engine.adapters.vllm_threads._NODES", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("machine")
def test_no_more_threads_than_this_process_has_cores() -> None:
    assert set_up_cpu({"model": "m"}) == {"model": "m", "distributed_executor_backend": IN_ENGINE_CORE}
    assert (os.environ["VLLM_CPU_OMP_THREADS_BIND"], os.environ["OMP_NUM_THREADS"]) == ("nobind", "2")


def test_where_vllm_binds_threads_its_worker_stays_a_process_of_its_own(machine: Path) -> None:
    for number in range(2):
        (machine / f"node{number}").mkdir()
    assert set_up_cpu({"model": "m"}) == {"model": "m"}
    assert not {"VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS"} & set(os.environ)


@pytest.mark.parametrize(
    "arguments",
    [
        {"distributed_executor_backend": "mp"},
        {"tensor_parallel_size": 2},
        {"pipeline_parallel_size": 2},
        {"data_parallel_size": 2},
    ],
)
def test_several_workers_and_a_named_executor_stay_as_they_are(arguments: dict[str, object]) -> None:
    assert with_lone_worker(arguments) == arguments


def test_the_executor_is_one_that_vllm_has() -> None:
    executor = pkgutil.resolve_name(IN_ENGINE_CORE)
    assert executor.__mro__[1].__name__ == "Executor"
