from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.sharing import sharing
from tests.waiting import wait_until
from tools.serving.instance import Instance, new_id
from tools.serving.sweep import VARIABLE, processes_of, sweep
from tools.wire.process_group import is_resource_tracker


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


@pytest.mark.slow
def test_what_killed_processes_shared_goes_with_them(instance: Instance) -> None:
    with sharing({**os.environ, VARIABLE: instance.id}) as engine, sharing() as another:
        tracker, *others = sorted(processes_of(instance.id), key=is_resource_tracker, reverse=True)
        assert len(others) == 2
        assert sorted(sweep(instance)) == sorted(others)
        assert not engine.memory.exists()
        assert another.memory.exists()
        assert not is_resource_tracker(tracker)


@pytest.mark.slow
def test_a_tracker_that_does_not_end_is_killed(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.serving.sweep.TRACKER_S", 0.1)
    code = "from multiprocessing.resource_tracker import main; import time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, VARIABLE: instance.id}) as tracker:
        wait_until(lambda: is_resource_tracker(tracker.pid))
        assert sweep(instance) == [tracker.pid]
        assert tracker.wait() == -9
