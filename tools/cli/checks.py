"""`./ladder test`: what has to pass before a change is taken."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from tools.bootstrap.layout import Layout

_FAST = "not e2e and not slow and not gpu and not browser"
_NEEDS_GPU = "gpu"
_NEEDS_CHROMIUM = "browser and not gpu"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True)
class Check:
    """A command whose exit code counts."""

    name: str
    command: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command `test`."""
    app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(run_checks)


def run_checks(
    context: typer.Context,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Without the tests marked e2e (a real server and model), browser, and slow (a second or more).",
        ),
    ] = False,
) -> None:
    """Run ruff, mypy --strict and pytest; further arguments go to pytest.

    Every check runs, whatever the ones before it said. Exits with 1 when any of them failed.
    """
    failed = [check.name for check in checks(fast=fast, pytest_arguments=context.args) if not _passes(check)]
    if fast:
        print("== not run: what is marked e2e, slow, browser or gpu; ./ladder test runs all but gpu", flush=True)
    else:
        _list_tests(_NEEDS_GPU, "they need a GPU")
        if chromium() is None:
            _list_tests(_NEEDS_CHROMIUM, "they need Chromium (Debian: apt-get install chromium)")
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
        raise typer.Exit(1)


def checks(*, fast: bool, pytest_arguments: Sequence[str]) -> list[Check]:
    """What is run, in this order; pytest last, so that its closing line stands near the end."""
    python = sys.executable
    return [
        Check("ruff", (python, "-m", "ruff", "check", ".")),
        Check("mypy", (python, "-m", "mypy")),
        Check("pytest", (python, "-m", "pytest", "-m", _FAST if fast else _all(), *pytest_arguments)),
    ]


def _passes(check: Check) -> bool:
    print(f"== {shlex.join(check.command[1:])}", flush=True)
    return subprocess.run(check.command, cwd=_home(), env=_environment(), check=False).returncode == 0


def chromium() -> str | None:
    """The browser that tests marked `browser` look through, None when there is none on PATH."""
    return next((path for name in _CHROMIUM if (path := shutil.which(name))), None)


def _all() -> str:
    return f"not gpu{'' if chromium() else ' and not browser'}"


def _list_tests(marked: str, why: str) -> None:
    """Says which tests this machine did not run, so that nobody takes them for passed."""
    command = (sys.executable, "-m", "pytest", "-m", marked, "--collect-only", "-q", "--no-header")
    listed = subprocess.run(
        command, cwd=_home(), env=_environment(), capture_output=True, text=True, encoding="utf-8", check=False
    )
    names = [line for line in listed.stdout.splitlines() if "::" in line]
    print(f"== not run, {why}: {len(names) or 'none'}", *names, sep="\n   ", flush=True)


def _home() -> str:
    return str(Layout.of_this_checkout().home)


def _environment() -> dict[str, str]:
    # Tests start processes that import this package; pytest itself finds it through its working folder.
    return {**os.environ, "PYTHONPATH": _home(), "PYTHONUTF8": "1"}
