from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive
from tools.serving.instance import Instance, InstanceFiles, new_id
from tools.serving.status import status_of
from tools.serving.sweep import VARIABLE

BASE = 18217


def write(layout: Layout, *, supervisor: int = 0) -> Instance:
    instance = Instance(
        new_id(BASE), BASE, "cpu-smollm2", ("/r",), (), "", time.time() - 90, supervisor, phase="running"
    )
    instance.write(InstanceFiles.at(BASE, layout))
    return instance


def test_nothing_written_down_is_no_instance(tmp_path: Path) -> None:
    assert status_of(BASE, Layout(tmp_path)) is None


def test_a_supervised_instance_that_does_not_answer_yet_has_no_models(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write(layout, supervisor=os.getpid())
    with exclusive(InstanceFiles.at(BASE, layout).lock, lambda _: None):
        status = status_of(BASE, layout)
    assert status is not None
    assert (status.phase, status.running, status.models) == ("running", True, [])
    assert status.title == 'profile "cpu-smollm2"'
    assert 90 <= status.uptime_s < 200
    assert (status.ports.http, status.ports.grpc, status.ports.metrics) == (BASE, BASE + 1, BASE + 2)
    assert [(process.pid, process.role) for process in status.processes] == [(os.getpid(), "supervisor")]
    assert status.processes[0].memory_bytes > 1_000_000


@pytest.mark.parametrize(
    ("name", "arguments", "role"),
    [
        ("triton_python_backend_stub", ["/r/llm_baseline/3/model.py"], "stub of llm_baseline version 3"),
        ("python", ["-m", "tools.engine"], "engine"),
        (
            "python",
            ["-c", "from multiprocessing.resource_tracker import main;main(3)"],
            "resource tracker of an engine",
        ),
        ("tritonserver", ["argument"], "tritonserver"),
    ],
)
def test_processes_are_named_by_what_they_are(tmp_path: Path, name: str, arguments: list[str], role: str) -> None:
    layout = Layout(tmp_path)
    instance = write(layout)
    # A sleep under another name and with other arguments, as far as its command line tells.
    program = tmp_path / name
    program.symlink_to(sys.executable)
    sitecustomize = tmp_path / "sitecustomize.py"
    sitecustomize.write_text("import time; time.sleep(60)", encoding="utf-8")
    variables = {"PYTHONPATH": str(tmp_path), VARIABLE: instance.id}
    with subprocess.Popen([program, *arguments], env={**os.environ, **variables}) as process:
        try:
            status = status_of(BASE, layout)
        finally:
            process.kill()
    assert status is not None
    assert [(found.pid, found.role) for found in status.processes] == [(process.pid, role)]
    assert status.phase == "orphaned"
