"""The files of a release: whole or not there, one owner at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.world import World
from tools.bootstrap.layout import Layout
from tools.release.errors import ReleaseError
from tools.release.folder import Order, ReleaseFolder
from tools.release.plan import load_plan


def test_progress_survives_writing(tmp_path: Path) -> None:
    world = World(tmp_path)
    progress = world.begin(load_plan())
    assert world.folder.progress() is None
    world.folder.save(progress)
    assert world.folder.progress() == progress


def test_an_order_is_there_until_it_is_taken_away(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path)
    order = Order(ask="abort", who="ann@here", why="page")
    assert folder.order() is None
    folder.give(order)
    assert folder.order() == order
    folder.take_order_away()
    folder.take_order_away()
    assert folder.order() is None
    assert order.id != Order(ask="abort", who="ann@here").id


def test_a_file_of_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"id": 1}', encoding="utf-8")
    with pytest.raises(ReleaseError, match=r'progress.json" is not what this version of ./ladder release writes'):
        ReleaseFolder(tmp_path).progress()


@pytest.mark.slow
def test_the_lock_has_one_holder_and_ends_with_its_process(tmp_path: Path) -> None:
    folder = ReleaseFolder(tmp_path)
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tools.release.folder import ReleaseFolder\n"
        "with ReleaseFolder(Path(sys.argv[2])).locked() as ours: print(ours, flush=True); time.sleep(60)"
    )
    home = str(Layout.of_this_checkout().home)
    with subprocess.Popen([sys.executable, "-c", code, home, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        with folder.locked() as ours:
            assert not ours
        assert folder.holder() == str(other.pid)
        other.kill()
    with folder.locked() as ours:
        assert ours
        assert folder.holder() == str(os.getpid())


def test_whoever_locks_clears_up_what_a_killed_one_was_writing(tmp_path: Path) -> None:
    (tmp_path / ".progress.json.abc").touch()
    (tmp_path / ".release.yaml.abc").touch()
    # Written by whoever gives an order, without the lock.
    (tmp_path / ".order.json.abc").touch()
    with ReleaseFolder(tmp_path).locked():
        assert sorted(path.name for path in tmp_path.iterdir()) == [".order.json.abc", "lock"]
