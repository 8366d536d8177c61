from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.cli import instances
from tools.cli.app import main
from tools.serving.instance import Instance, InstanceFiles, new_id


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    layout = Layout(tmp_path)
    monkeypatch.setattr(instances.Layout, "of_this_checkout", classmethod(lambda _: layout))
    return layout


def leave_behind(layout: Layout, base: int, **fields: object) -> InstanceFiles:
    """What a supervisor that is gone has written."""
    files = InstanceFiles.at(base, layout)
    instance = Instance(
        new_id(base), base, "cpu-smollm2", (), (), str(layout.home / "sockets"), time.time(), 2**22 + 1, 0, **fields
    )
    instance.write(files)
    return files


def test_nothing_runs(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 1
    assert capsys.readouterr().out == "Nothing runs. Start with: ./ladder up\n"
    assert main(["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == []
    assert main(["down"]) == 0
    assert capsys.readouterr().err == "Nothing runs at port base 8000.\n"


@pytest.mark.parametrize("command", ["up", "down", "status", "logs"])
@pytest.mark.parametrize("base", [-5, 0, 65534])
def test_a_port_base_without_room_for_three_ports_is_a_wrong_command_line(
    command: str, base: int, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, f"--port-base={base}"]) == 2
    assert "--port-base" in capsys.readouterr().err


def test_a_killed_supervisor_is_shown_and_cleared(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    files = leave_behind(layout, 18219, phase="running")
    (layout.home / "sockets").mkdir()
    assert main(["status"]) == 1
    shown = capsys.readouterr().out
    assert 'profile "cpu-smollm2"  orphaned' in shown
    assert "./ladder down --port-base 18219 clears it up" in shown
    assert main(["down"]) == 0
    assert "Nothing runs at port base 8000; there is one at 18219." in capsys.readouterr().err
    assert main(["down", "--all"]) == 0
    assert "Stopped: nothing of the server at port base 18219 is left." in capsys.readouterr().err
    assert not files.state.exists()
    assert not (layout.home / "sockets").exists()


def test_a_server_that_died_is_shown_with_the_reason(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    leave_behind(layout, 18219, phase="failed", reason="tritonserver ended with exit code 1")
    assert main(["status", "--port-base", "18219", "--json"]) == 1
    [shown] = json.loads(capsys.readouterr().out)
    assert (shown["phase"], shown["reason"]) == ("failed", "tritonserver ended with exit code 1")
    assert (shown["models"], shown["processes"]) == ([], [])
    assert main(["status"]) == 1
    assert "tritonserver ended with exit code 1" in capsys.readouterr().out


def test_a_damaged_state_does_not_hide_the_other_instances(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = leave_behind(layout, 18215)
    damaged.state.write_text("", encoding="utf-8")
    other = leave_behind(layout, 18219, phase="running")
    assert main(["status"]) == 1
    shown = capsys.readouterr()
    assert "orphaned" in shown.out
    assert f'error: "{damaged.state}" is not what a supervisor writes' in shown.err
    assert main(["down", "--all"]) == 1
    shown = capsys.readouterr()
    assert f'error: "{damaged.state}" is not what a supervisor writes' in shown.err
    assert "Stopped: nothing of the server at port base 18219 is left." in shown.err
    assert not other.state.exists()


def test_logs_are_those_of_the_last_server(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 1
    assert "error: no server was started at port base 8000" in capsys.readouterr().err
    files = InstanceFiles.at(8000, layout)
    files.folder.mkdir(parents=True)
    files.server_log.write_text("one\ntwo\nthree\n", encoding="utf-8")
    assert main(["logs", "--lines", "2"]) == 0
    assert capsys.readouterr().out == "two\nthree\n"
    assert main(["logs", "--follow"]) == 0
    assert capsys.readouterr().out == "one\ntwo\nthree\n"
