"""`./ladder` itself, as a process, in a checkout where nothing is prepared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bootstrap import entry
from tools.bootstrap.commands import COMMANDS
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.layout import Layout
from tools.bootstrap.version import VERSION

HOME = Layout.of_this_checkout().home


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A checkout without environments: the launcher and the bootstrap, which need nothing else."""
    home = tmp_path / "a clone"
    home.mkdir()
    shutil.copy2(HOME / "ladder", home / "ladder")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HOME / "tools" / "bootstrap", home / "tools" / "bootstrap", ignore=ignore)
    shutil.copy2(HOME / "tools" / "__init__.py", home / "tools" / "__init__.py")
    return home


def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [home / "ladder", *arguments],
        # The interpreter at hand, unless a test is about finding one: a shim may take a second to find it.
        env={**os.environ, "LADDER_PYTHON": sys.executable, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(arguments: list[str], fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(arguments, Layout(fresh)) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.name} " in shown
        assert command.summary in shown


def test_the_version_is_the_projects(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--version"], Layout(fresh)) == 0
    assert capsys.readouterr().out == f"ladder {VERSION}\n"
    assert f'version = "{VERSION}"' in (HOME / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [command.name for command in COMMANDS if command.module])
def test_help_of_a_command_starts_no_installation(name: str, fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run([name, "--help"], Layout(fresh)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"./ladder {name}: ")
    assert "./ladder setup" in shown
    assert not (fresh / ".ladder").exists()


def test_an_unknown_command_is_refused_with_the_nearest(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["stauts"], Layout(fresh)) == 2
    assert capsys.readouterr().err == 'ladder: error: no command "stauts": did you mean "status"?\n'
    assert entry.run(["xyzzy"], Layout(fresh)) == 2
    assert capsys.readouterr().err == 'ladder: error: no command "xyzzy": ./ladder --help lists them\n'


@pytest.mark.parametrize("name", ["down", "status", "logs"])
def test_what_only_looks_at_servers_does_not_install_anything(name: str, fresh: Path) -> None:
    with pytest.raises(BootstrapError) as refusal:
        entry.run([name], Layout(fresh))
    assert f'"{name}" needs the engine environment, which is not there' in str(refusal.value)
    assert "./ladder setup builds it" in str(refusal.value)
    assert not (fresh / ".ladder").exists()


def test_setup_takes_no_other_arguments(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["setup", "now"], Layout(fresh)) == 2
    assert capsys.readouterr().err == 'ladder: error: "setup" takes nothing but --from-kit DIR, got "now"\n'


@pytest.mark.slow
def test_errors_are_printed_and_give_exit_code_1(fresh: Path) -> None:
    refused = run(fresh, "status")
    assert refused.returncode == 1
    assert refused.stderr.startswith('ladder: error: "status" needs the engine environment')


@pytest.mark.slow
def test_the_launcher_works_through_a_link_and_from_any_folder(fresh: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "ladder"
    link.parent.mkdir()
    link.symlink_to(fresh / "ladder")
    shown = subprocess.run([link, "--version"], cwd="/", capture_output=True, text=True, check=False)
    assert shown.stdout == f"ladder {VERSION}\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_failure(fresh: Path, closed: str) -> None:
    shell = subprocess.run(
        ["sh", "-c", f'"$0" doctor --help {closed}', fresh / "ladder"], capture_output=True, text=True, check=False
    )
    assert (shell.returncode, shell.stderr) == (0, "")


@pytest.mark.slow
def test_output_that_finds_no_space_is_named(fresh: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        ended = subprocess.run(
            [fresh / "ladder", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.stderr == "ladder: error: the output: No space left on device: free some space\n"
    assert ended.returncode == 1


@pytest.mark.slow
def test_a_reader_that_hangs_up_is_no_traceback(fresh: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([fresh / "ladder", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_folder_that_cannot_be_made_is_named(fresh: Path) -> None:
    (fresh / ".ladder").write_text("", encoding="utf-8")
    refused = run(fresh, "setup")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1] == (
        f'ladder: error: "{fresh / ".ladder" / "env"}": Not a directory: move what is there instead of a folder'
    )


def test_a_current_folder_that_is_gone_is_named(fresh: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && "$0" --version', fresh / "ladder"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "ladder: error: the current folder is gone: cd to one that is there" in ended.stderr


@pytest.mark.slow
def test_a_users_pythonpath_does_no_harm(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('the wrong argparse')", encoding="utf-8")
    assert run(fresh, "doctor", "--help", PYTHONPATH=str(tmp_path), PYTHONHOME="").returncode == 0


def test_a_wrong_ladder_python_is_named(fresh: Path) -> None:
    refused = run(fresh, "--version", LADDER_PYTHON="/nowhere/python3")
    assert refused.returncode == 1
    assert 'LADDER_PYTHON="/nowhere/python3" is not a working Python 3.11, 3.12 or 3.13' in refused.stderr


def test_without_a_fitting_python_the_launcher_says_what_to_install(fresh: Path, tmp_path: Path) -> None:
    tools = tmp_path / "path"
    tools.mkdir()
    for tool in ("sh", "readlink", "dirname", "cat"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    refused = run(fresh, "--version", PATH=str(tools), LADDER_PYTHON="")
    assert refused.returncode == 1
    assert "no Python 3.11, 3.12 or 3.13 on PATH" in refused.stderr
    assert "apt install python3 python3-venv" in refused.stderr


def test_the_command_line_gets_its_arguments_isolated_and_in_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[object] = []
    monkeypatch.setattr(entry, "is_usable", lambda *_: True)
    monkeypatch.setattr(entry, "prepare", lambda *_: None)
    monkeypatch.setattr(entry.os, "execve", lambda *call: became.extend(call))
    monkeypatch.setenv("PYTHONPATH", "/x")
    layout = Layout(tmp_path)
    entry.run(["lint", "my repo", "--strict"], layout)
    python = str(layout.environment_python("engine"))
    command_line = [python, "-I", "-X", "utf8", str(tmp_path / "tools" / "cli"), "lint", "my repo", "--strict"]
    assert became[:2] == [python, command_line]
    variables = became[2]
    assert isinstance(variables, dict)
    assert "PYTHONPATH" not in variables
    assert variables["LADDER_HOME"] == str(tmp_path)
