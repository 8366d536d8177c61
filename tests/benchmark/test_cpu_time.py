from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.benchmark.cpu_time import cpu_seconds, processes_by_role
from tools.serving.sweep import VARIABLE

INSTANCE = "18520-cputest1"


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[dict[str, int]]:
    """Processes of an instance under the names that its real ones have."""
    script = tmp_path / "sleep.py"
    script.write_text("import time; time.sleep(600)", encoding="utf-8")
    started = []
    ids = {}
    for name in ("tritonserver", "triton_python_backend_stub", "python3"):
        link = tmp_path / name
        link.symlink_to(sys.executable)
        environment = {**os.environ, VARIABLE: INSTANCE}
        started.append(subprocess.Popen([link, "-I", script], env=environment))
        ids[name] = started[-1].pid
    yield ids
    for process in started:
        process.kill()
        process.wait()


def test_the_processes_of_an_instance_by_what_they_are(sleepers: dict[str, int]) -> None:
    assert processes_by_role(INSTANCE) == {
        "server": (sleepers["tritonserver"],),
        "stub": (sleepers["triton_python_backend_stub"],),
        "engine": (sleepers["python3"],),
    }


def test_cpu_time_grows_with_work() -> None:
    processes = {"client": (os.getpid(),)}
    before = cpu_seconds(processes)["client"]
    while cpu_seconds(processes)["client"] < before + 0.05:
        sum(range(10000))
    assert cpu_seconds(processes)["client"] > before
