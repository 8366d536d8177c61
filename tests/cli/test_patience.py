"""Nobody waits without knowing for what."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from tools.cli import patience
from tools.cli.patience import said_when_slow


class Heard(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.spoken = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        self.spoken.set()
        return written


def test_what_takes_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_SLOW_S", 0.0)
    heard = Heard()
    with said_when_slow(Console(file=heard), "waiting for the server"):
        assert heard.spoken.wait(30)
    assert heard.getvalue().strip() == "waiting for the server"


def test_what_is_quick_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Timer] = []
    monkeypatch.setattr(patience, "_SLOW_S", 600.0)
    monkeypatch.setattr(threading.Timer, "start", lambda timer: started.append(timer))
    heard = Heard()
    with said_when_slow(Console(file=heard), "waiting for the server"):
        assert not started[0].finished.is_set()
    assert started[0].finished.is_set()
    assert heard.getvalue() == ""
