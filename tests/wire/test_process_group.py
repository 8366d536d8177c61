"""Killed groups: who is gone, and what they leave in shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.process_groups import processes_of
from tests.fixtures.sharing import Sharing, sharing
from tests.waiting import wait_until
from tools.wire import process_group
from tools.wire.process_group import is_resource_tracker, kill_group

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def shared() -> Iterator[Sharing]:
    with sharing() as running:
        yield running


def test_a_killed_group_leaves_no_process_and_no_shared_memory(shared: Sharing) -> None:
    assert shared.memory.exists()
    assert len(processes_of(shared.first.pid)) == 3
    with sharing() as another:
        kill_group(shared.first.pid)
        assert processes_of(shared.first.pid) == []
        assert not shared.memory.exists()
        assert another.memory.exists()
        assert len(processes_of(another.first.pid)) == 3


def test_a_group_whose_first_process_was_killed_is_cleared_up_too(shared: Sharing) -> None:
    shared.first.kill()
    shared.first.wait()
    assert shared.memory.exists()
    kill_group(shared.first.pid)
    assert processes_of(shared.first.pid) == []
    assert not shared.memory.exists()


def test_a_group_that_is_gone_is_no_error(shared: Sharing) -> None:
    kill_group(shared.first.pid)
    kill_group(shared.first.pid)


def test_a_tracker_that_waits_in_vain_is_killed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "TRACKER_S", 0.1)
    tracker = "from multiprocessing.resource_tracker import main; import time; time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", tracker], start_new_session=True) as waiting:
        wait_until(lambda: is_resource_tracker(waiting.pid))
        kill_group(waiting.pid)
        assert waiting.wait() == -9


def test_a_caller_inside_the_group_lives_on_until_it_ends_itself() -> None:
    code = """
import os, subprocess
from tools.wire.process_group import kill_others
child = subprocess.Popen(["sleep", "600"])
kill_others(os.getpid())
print(child.wait())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "-9\n"


def test_only_living_processes_are_trackers() -> None:
    assert not is_resource_tracker(os.getpid())
    # Beyond what the kernel gives out.
    assert not is_resource_tracker(2**22 + 1)
