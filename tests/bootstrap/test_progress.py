from __future__ import annotations

import io

import pytest

from tools.bootstrap import progress
from tools.bootstrap.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_each_phase_is_one_line_however_often_it_is_counted_on() -> None:
    output = io.StringIO()
    shown = Progress(output)
    for phase in ("fetching packages, 1 of 9", "fetching packages, 2 of 9", "unpacking packages"):
        shown.set("engine", phase)
        shown.draw()
    assert output.getvalue() == "  engine  0:00  fetching packages, 1 of 9\n  engine  0:00  unpacking packages\n"


def test_elsewhere_long_work_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT", -1.0)
    output = io.StringIO()
    shown = Progress(output)
    shown.set("engine", "fetching packages, 1 of 9")
    shown.draw()
    shown.set("engine", "fetching packages, 5 of 9")
    shown.draw()
    shown.set("engine", "ready", finished=True)
    shown.draw()
    shown.draw()
    phases = [line.split("  ")[-1] for line in output.getvalue().splitlines()]
    assert phases == ["fetching packages, 1 of 9", "fetching packages, 5 of 9", "ready"]


def test_on_a_terminal_lines_are_drawn_over_their_last_state() -> None:
    output = Terminal()
    shown = Progress(output)
    shown.set("engine", "creating it")
    shown.set("server", "creating it")
    shown.draw()
    shown.set("server", "ready", finished=True)
    shown.draw()
    first, second = output.getvalue().split("\x1b[2F")
    assert first == "\x1b[2K  engine  0:00  creating it\n\x1b[2K  server  0:00  creating it\n"
    assert second == "\x1b[2K  engine  0:00  creating it\n\x1b[2K  server  0:00  ready\n"
