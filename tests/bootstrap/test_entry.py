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


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), ("help",)])
def test_help_names_every_command(fresh: Path, arguments: tuple[str, ...]) -> None:
    shown = run(fresh, *arguments)
    assert shown.returncode == 0
    for command in COMMANDS:
        assert f"  {command.name} " in shown.stdout
        assert command.summary in shown.stdout


def test_the_version_is_the_projects(fresh: Path) -> None:
    assert run(fresh, "--version").stdout == f"ladder {VERSION}\n"
    assert f'version = "{VERSION}"' in (HOME / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.module])
def test_help_of_a_command_starts_no_installation(fresh: Path, command: object) -> None:
    name = command.name  # type: ignore[attr-defined]
    shown = run(fresh, name, "--help")
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"./ladder {name}: ")
    assert "./ladder setup" in shown.stdout
    assert not (fresh / ".ladder").exists()


def test_an_unknown_command_is_refused_with_the_nearest(fresh: Path) -> None:
    refused = run(fresh, "stauts")
    assert refused.returncode == 2
    assert refused.stderr == 'ladder: error: no command "stauts": did you mean "status"?\n'
    assert run(fresh, "xyzzy").stderr == 'ladder: error: no command "xyzzy": ./ladder --help lists them\n'


@pytest.mark.parametrize("name", ["down", "status", "logs"])
def test_what_only_looks_at_servers_does_not_install_anything(fresh: Path, name: str) -> None:
    refused = run(fresh, name)
    assert refused.returncode == 1
    assert f'"{name}" needs the engine environment, which is not there' in refused.stderr
    assert "./ladder setup builds it" in refused.stderr
    assert not (fresh / ".ladder").exists()


def test_setup_takes_no_arguments(fresh: Path) -> None:
    refused = run(fresh, "setup", "now")
    assert (refused.returncode, refused.stderr) == (2, 'ladder: error: "setup" takes no arguments, got "now"\n')


def test_the_launcher_works_through_a_link_and_from_any_folder(fresh: Path, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "ladder"
    link.parent.mkdir()
    link.symlink_to(fresh / "ladder")
    shown = subprocess.run([link, "--version"], cwd="/", capture_output=True, text=True, check=False)
    assert shown.stdout == f"ladder {VERSION}\n"


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
    assert "PYTHONPATH" not in became[2]  # type: ignore[operator]
