"""Locks that end with their process, and looking whether they are held, which keeps nobody from having them."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from tools.bootstrap import locking
from tools.bootstrap.locking import is_held, try_lock


@pytest.mark.slow
def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "lock"
    assert not is_held(lock)
    held = try_lock(lock)
    assert held is not None
    assert is_held(lock)
    assert try_lock(lock) is None
    os.close(held)
    assert not is_held(lock)


def test_two_that_look_at_the_same_moment_take_none_of_them_for_the_holder(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    with lock.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_held(lock)


def test_whoever_looks_for_a_moment_keeps_nobody_from_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "_LOOK_S", 30.0)
    lock = tmp_path / "lock"
    lock.touch()
    looking = os.open(lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looking]).start()
    held = try_lock(lock)
    assert held is not None
    os.close(held)


def test_a_lock_that_may_only_be_read_can_be_looked_at(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch(mode=0o400)
    assert not is_held(lock)
