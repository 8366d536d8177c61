from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.serving.instance import Instance, new_id
from tools.serving.sweep import VARIABLE, processes_of, sweep


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    (sockets / "engine.req").touch()
    return Instance(new_id(18210), 18210, "p", (), (), str(sockets))


@pytest.fixture
def process(instance: Instance) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(["sleep", "300"], env={**os.environ, VARIABLE: instance.id}, start_new_session=True)
    yield started
    started.kill()
    started.wait()


def test_processes_are_found_by_the_instance_they_belong_to(
    instance: Instance, process: subprocess.Popen[bytes]
) -> None:
    assert list(processes_of(instance.id)) == [process.pid]
    # An id that begins with another one is another instance.
    assert list(processes_of(instance.id[:-1])) == []


def test_a_process_never_finds_itself(instance: Instance) -> None:
    code = f"from tools.serving.sweep import processes_of; print(list(processes_of({instance.id!r})))"
    environment = {**os.environ, VARIABLE: instance.id, "PYTHONPATH": str(Path(__file__).parents[2])}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_sweep_ends_processes_and_removes_files_of_this_instance_alone(
    instance: Instance, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    shared_memory = tmp_path / "shm"
    shared_memory.mkdir()
    ours, theirs = shared_memory / f"{instance.shared_memory}1", shared_memory / "ladder-18210-other-1"
    ours.touch()
    theirs.touch()
    assert sweep(instance, shared_memory) == [process.pid]
    assert process.wait(10) == -9
    assert not ours.exists()
    assert theirs.exists()
    assert not Path(instance.sockets).exists()
    assert sweep(instance, shared_memory) == []
