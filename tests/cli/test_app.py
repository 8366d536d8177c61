from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tools.bootstrap.commands import COMMANDS
from tools.bootstrap.errors import BootstrapError
from tools.cli.app import application, main

HOME = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.module], ids=lambda known: known.name)
def test_every_listed_command_is_registered_and_shows_its_options(
    command: object, capsys: pytest.CaptureFixture[str]
) -> None:
    name = command.name  # type: ignore[attr-defined]
    assert main([name, "--help"]) == 0
    assert f"./ladder {name} [OPTIONS]" in capsys.readouterr().out


def test_a_command_that_is_answered_earlier_is_no_command_here() -> None:
    with pytest.raises(BootstrapError, match='"doctor" is answered before the command line starts'):
        application("doctor")


@pytest.mark.parametrize(
    ("ending", "code"), [("typer.Exit(3)", 3), ("SystemExit('text')", 1), ("KeyboardInterrupt()", 130)]
)
def test_exit_codes(ending: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def end() -> None:
        raise eval(ending, {"typer": typer, "__builtins__": __builtins__})

    def application_that_ends(_name: str) -> typer.Typer:
        app = typer.Typer()
        app.callback()(lambda: None)
        app.command("up")(end)
        return app

    monkeypatch.setattr("tools.cli.app.application", application_that_ends)
    assert main(["up"]) == code


def test_an_error_of_the_system_names_the_file_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def end(_arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full/file")

    monkeypatch.setattr("tools.cli.app._run", end)
    monkeypatch.setattr("tools.bootstrap.failures._drop_output", lambda: None)
    assert main(["up"]) == 1
    assert capfd.readouterr().err == 'ladder: error: "/full/file": No space left on device: free some space\n'


@pytest.mark.slow
def test_commands_start_without_the_heavy_packages() -> None:
    code = (
        "import sys; from tools.cli.app import COMMANDS, application\n"
        "for command in COMMANDS:\n"
        "  if command.module: application(command.name)\n"
        "print(sorted({'torch', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, encoding="utf-8", check=True
    )
    assert answer.stdout.strip() == "[]"
