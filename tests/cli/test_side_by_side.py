from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from tools.cli import side_by_side
from tools.cli.side_by_side import started


def shell(command: str) -> list[str]:
    return ["sh", "-c", command]


def test_commands_run_together_and_are_shown_in_turn(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    # Each waits for the other: one after the other they would never end.
    first = shell("echo first; mkfifo pipe 2>&1; echo token > pipe; printf 'first \\303\\244nd'; exit 3")
    second = shell("while ! test -p pipe; do sleep 0.01; done; cat pipe; echo $NAME >&2")
    with started([first, second], str(tmp_path), {**os.environ, "NAME": "second"}) as running:
        assert [command.show() for command in running] == [3, 0]
    assert capfdbinary.readouterr().out == "first\nfirst ändtoken\nsecond\n".encode()


def test_what_a_command_says_is_shown_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[bytes] = []

    class Terminal:
        """Lets the command go on once it has shown its first line."""

        buffer: Terminal

        def write(self, text: bytes) -> None:
            shown.append(text)
            (tmp_path / "seen").touch()

        def flush(self) -> None: ...

    terminal = Terminal()
    terminal.buffer = terminal
    with started(
        [shell("echo one; while ! test -e seen; do sleep 0.01; done; echo two")], str(tmp_path), os.environ
    ) as (running,):
        monkeypatch.setattr(side_by_side.sys, "stdout", terminal)
        assert running.show() == 0
    assert b"".join(shown) == b"one\ntwo\n"
    assert len(shown) > 1


def test_what_still_runs_at_the_end_is_interrupted_and_waited_for(tmp_path: Path) -> None:
    command = shell("trap 'sleep 0.1; echo done >> ended; exit' INT; echo $$ >> pids; while :; do sleep 0.01; done")
    pids = tmp_path / "pids"
    with started([command] * 2, str(tmp_path), os.environ):
        wait_until(lambda: pids.exists() and len(pids.read_text(encoding="utf-8").split()) == 2)
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "done\ndone\n"
    assert not any(map(psutil.pid_exists, map(int, pids.read_text(encoding="utf-8").split())))


def test_a_command_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_END_S", 0.1)
    command = shell("trap '' INT; echo $$ > pid; while :; do sleep 0.01; done")
    with started([command], str(tmp_path), os.environ):
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8").strip())
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_one_that_cannot_be_started_leaves_none_of_the_others(tmp_path: Path) -> None:
    sleeping = shell("echo $$ > pid; exec sleep 600")
    with pytest.raises(FileNotFoundError), started([sleeping, ["no-such-program"]], str(tmp_path), os.environ):
        pass
    assert not (tmp_path / "pid").exists() or not psutil.pid_exists(
        int((tmp_path / "pid").read_text(encoding="utf-8") or "0")
    )
