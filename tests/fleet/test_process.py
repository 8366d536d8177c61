from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import wait_until
from tools.fleet import process as module
from tools.fleet.process import KeptProcess
from tools.serving.errors import ServingError


class Played:
    """A server that lives until the test or the keeper ends it."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.stopped = False

    def require_alive(self) -> None:
        if self.gone.is_set():
            raise ServingError("it was killed\nthe end of its log")

    def ask_to_stop(self) -> None:
        self.gone.set()

    def stop(self, _report: Callable[[str], None]) -> None:
        self.stopped = True


class Stage:
    """Starts played servers, in which `broken` fail before they are ready."""

    def __init__(self) -> None:
        self.started: list[Played] = []
        self.told: list[str] = []
        self.broken = 0
        self.kept = KeptProcess("stable-0", self.launch, self.make_ready, self.told.append)  # type: ignore[arg-type]

    def launch(self) -> Played:
        self.started.append(Played())
        return self.started[-1]

    def make_ready(self, server: Played, loads: Callable[[], None]) -> str:
        loads()
        if self.broken:
            self.broken -= 1
            raise ServingError("no model could be loaded")
        return ""


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    stage = Stage()
    yield stage
    stage.kept.stop(lambda _: None)


def test_what_dies_is_started_again_and_its_end_is_told(stage: Stage) -> None:
    stage.kept.start()
    wait_until(lambda: stage.kept.ready)
    stage.started[0].gone.set()
    wait_until(lambda: stage.kept.ready and len(stage.started) == 2)
    assert stage.kept.state.starts == 2
    assert stage.told == [
        "stable-0 starting",
        "stable-0 loading",
        "stable-0 ready",
        "stable-0 ended: it was killed. Starting it again in 0.01 s",
        "stable-0 starting, start 2",
        "stable-0 loading, start 2",
        "stable-0 ready, start 2",
    ]


def test_what_never_was_ready_is_not_tried_again(stage: Stage) -> None:
    stage.broken = 1
    stage.kept.start()
    wait_until(lambda: stage.kept.failed)
    assert stage.kept.state.phase == "down"
    assert stage.kept.state.reason == "no model could be loaded"
    assert len(stage.started) == 1


def test_what_was_ready_once_is_tried_until_it_is_again(stage: Stage) -> None:
    stage.kept.start()
    wait_until(lambda: stage.kept.ready)
    stage.broken = 2
    stage.started[0].gone.set()
    wait_until(lambda: stage.kept.ready and len(stage.started) == 4)
    assert not stage.kept.failed
    pauses = [line.rpartition(" in ")[2] for line in stage.told if "ended" in line]
    assert pauses == ["0.01 s", "0.02 s", "0.04 s"]


def test_what_is_stopped_is_not_started_again(stage: Stage) -> None:
    stage.kept.start()
    wait_until(lambda: stage.kept.ready)
    stage.kept.stop(lambda _: None)
    assert len(stage.started) == 1
    assert stage.started[0].stopped
    assert not any("ended" in line for line in stage.told)


def test_stopping_what_was_never_started_is_no_error(stage: Stage) -> None:
    stage.kept.stop(lambda _: None)
    assert stage.started == []
