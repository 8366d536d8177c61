"""`./ladder test`: what has to pass before a change is taken."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from tools.bootstrap.layout import Layout
from tools.cli.side_by_side import started
from tools.cli.signals import end_in_order_on

_FAST = "not e2e and not slow and not gpu and not browser and not promtool"
_NEEDS_GPU = "gpu"
_NEEDS_CHROMIUM = "browser and not gpu"
_NEEDS_PROMTOOL = "promtool"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Folders whose tests take half of the time of all. Of torch and transformers, which take seconds to import, the other
# half knows nothing; only end-to-end tests do, none of which is a fast one.
_FIRST_HALF = (
    "artifacts",
    "backends",
    "client",
    "drafting",
    "engine",
    "evaluation",
    "planning",
    "rendering",
)
_FAST_OPTIONS = ("-m", _FAST, "--hypothesis-profile=fast")


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

    Every check runs, whatever the ones before it said; all at the same time with --fast and no further argument. Exits
    with 1 when any of them failed.
    """
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    if fast and not context.args:
        failed = _failed_side_by_side(fast_checks())
    else:
        failed = [check.name for check in checks(fast=fast, pytest_arguments=context.args) if not _passes(check)]
    if fast:
        left_out = "e2e, slow, browser, promtool or gpu"
        print(f"== not run: what is marked {left_out}; ./ladder test runs all but gpu", flush=True)
    else:
        _list_tests(_NEEDS_GPU, "they need a GPU")
        if chromium() is None:
            _list_tests(_NEEDS_CHROMIUM, "they need Chromium (Debian: apt-get install chromium)")
        if shutil.which("promtool") is None:
            _list_tests(_NEEDS_PROMTOOL, "they need promtool (Debian: apt-get install prometheus)")
    if failed:
        print(f"failed: {'; '.join(failed)}", flush=True)
        raise typer.Exit(1)


def checks(*, fast: bool, pytest_arguments: Sequence[str]) -> list[Check]:
    """What is run, in this order; pytest last, so that its closing line stands near the end."""
    return [*_static_checks(), _pytest("pytest", *(_FAST_OPTIONS if fast else ("-m", _all())), *pytest_arguments)]


def fast_checks() -> list[Check]:
    """What --fast runs at the same time: pytest twice, each with half of the tests."""
    folders = [f"tests/{name}" for name in _FIRST_HALF]
    left_out = [f"--ignore={folder}" for folder in ("tests/e2e", *folders)]
    colour = ("--color=yes",) if sys.stdout.isatty() else ()
    return [
        *_static_checks(),
        _pytest("pytest, first half", *_FAST_OPTIONS, *colour, *folders),
        _pytest("pytest, second half", *_FAST_OPTIONS, *colour, *left_out),
    ]


def _static_checks() -> list[Check]:
    python = sys.executable
    return [Check("ruff", (python, "-m", "ruff", "check", ".")), Check("mypy", (python, "-m", "mypy"))]


def _pytest(name: str, *arguments: str) -> Check:
    return Check(name, (sys.executable, "-m", "pytest", *arguments))


def _passes(check: Check) -> bool:
    _announce(check)
    return subprocess.run(check.command, cwd=_home(), env=_environment(), check=False).returncode == 0


def _failed_side_by_side(checks: Sequence[Check]) -> list[str]:
    # Threads of torch spin for each other, beside other work for minutes.
    environment = {"OMP_NUM_THREADS": "1", **_environment()}
    failed = []
    with started([check.command for check in checks], _home(), environment) as running:
        for check, command in zip(checks, running, strict=True):
            _announce(check)
            if command.show() != 0:
                failed.append(check.name)
    return failed


def _announce(check: Check) -> None:
    print(f"== {shlex.join(check.command[1:])}", flush=True)


def chromium() -> str | None:
    """The browser that tests marked `browser` look through, None when there is none on PATH."""
    return next((path for name in _CHROMIUM if (path := shutil.which(name))), None)


def _all() -> str:
    missing = [] if chromium() else ["browser"]
    if shutil.which("promtool") is None:
        missing.append("promtool")
    return " and ".join(f"not {marker}" for marker in ("gpu", *missing))


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
