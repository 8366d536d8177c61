from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.engine.adapters.vllm_threads import unbind_threads, unbound_threads


def test_threads_are_as_many_as_vllm_would_bind_and_run_anywhere() -> None:
    assert unbound_threads({}, cores=8, numa_nodes=1) == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "7"}
    assert unbound_threads({}, cores=1, numa_nodes=1)["OMP_NUM_THREADS"] == "1"


def test_what_the_environment_says_stays() -> None:
    assert unbound_threads({"VLLM_CPU_OMP_THREADS_BIND": "0-3"}, cores=8, numa_nodes=1) == {}
    assert unbound_threads({"OMP_NUM_THREADS": "2"}, cores=8, numa_nodes=1)["OMP_NUM_THREADS"] == "2"


def test_on_several_numa_nodes_vllm_binds_them() -> None:
    assert unbound_threads({}, cores=64, numa_nodes=2) == {}


def test_no_more_threads_than_this_process_has_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr("psutil.cpu_count", lambda logical: None)
    monkeypatch.setattr("tools.engine.adapters.vllm_threads._NODES", tmp_path)
    unbind_threads()
    assert os.environ == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2"}
