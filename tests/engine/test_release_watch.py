"""Watching the release file: what is in force after each thing that can happen to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.engine.release_watch import ReleaseWatch
from tools.release.file import write_release
from tools.spec.release import ReleaseTarget, everything_to
from tools.wire.release import Released


def release_to(path: Path, model: str) -> None:
    write_release(path, everything_to(ReleaseTarget(model=model, version=1)))


def target(released: Released) -> str:
    assert released.release is not None
    return released.release.routes[0].targets[0].model


@pytest.fixture
def start(tmp_path: Path) -> Path:
    path = tmp_path / "chat" / "release.yaml"
    release_to(path, "start")
    return path


@pytest.fixture
def running(tmp_path: Path) -> Path:
    return tmp_path / "state" / "release.yaml"


def test_the_start_state_holds_until_there_is_a_running_state(start: Path, running: Path) -> None:
    watch = ReleaseWatch(start, running)
    assert watch.look()
    assert (target(watch.released), watch.released.source, watch.released.problem) == ("start", str(start), "")
    assert not watch.look(), "nothing has changed"
    release_to(running, "canary")
    assert watch.look()
    assert (target(watch.released), watch.released.source) == ("canary", str(running))
    release_to(start, "restart")
    assert not watch.look(), "the running state wins"
    running.unlink()
    assert watch.look()
    assert target(watch.released) == "restart"


def test_a_broken_file_leaves_what_is_in_force(start: Path, running: Path) -> None:
    watch = ReleaseWatch(start, running)
    release_to(running, "canary")
    watch.look()
    running.write_text("routes: []\n", encoding="utf-8")
    assert watch.look()
    assert target(watch.released) == "canary"
    assert watch.released.problem.startswith(f"{running}:1: routes: ")
    assert not watch.look(), "one problem is said once"
    release_to(running, "mended")
    assert watch.look()
    assert (target(watch.released), watch.released.problem) == ("mended", "")


def test_a_file_of_the_same_size_and_time_is_seen_by_its_inode(start: Path) -> None:
    watch = ReleaseWatch(start, None)
    watch.look()
    before = start.stat()
    release_to(start, "atarx")
    os.utime(start, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert start.stat().st_size == before.st_size
    assert watch.look()
    assert target(watch.released) == "atarx"


def test_without_a_file_there_is_a_problem_and_no_release(tmp_path: Path) -> None:
    watch = ReleaseWatch(tmp_path / "release.yaml", None)
    assert watch.look()
    assert watch.released.release is None
    assert watch.released.problem.startswith(f'no release file "{tmp_path / "release.yaml"}": ./ladder render writes')
    assert not watch.look()
    release_to(tmp_path / "release.yaml", "late")
    assert watch.look()
    assert target(watch.released) == "late"


def test_a_running_state_that_cannot_be_looked_at_is_broken_and_not_gone(start: Path, running: Path) -> None:
    release_to(running, "canary")
    watch = ReleaseWatch(start, running)
    watch.look()
    running.unlink()
    running.symlink_to(running)
    assert watch.look()
    assert target(watch.released) == "canary"
    assert f'release file "{running}" cannot be read' in watch.released.problem
    assert not watch.look(), "nothing has changed"
    running.unlink()
    release_to(running, "next")
    assert watch.look()
    assert (target(watch.released), watch.released.problem) == ("next", "")
