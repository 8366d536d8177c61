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

# Real engines take all cores, for minutes: what asks them would time out beside other work.
_ALONE = "e2e and not light"
_NEEDS_GPU = "gpu"
_NEEDS_CHROMIUM = "browser and not gpu"
_NEEDS_PROMTOOL = "promtool"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Folders whose tests one pytest runs; another one runs all that is in none of these. Two cores share the processes, so
# their shares may grow apart until one of them takes as long as half of all. Importing torch and transformers takes
# much of a fast run, so one part does it; in a full run quantisation and training take longer than all else.
_FAST_PARTS = (
    ("artifacts", "backends", "client", "drafting", "engine", "evaluation", "planning", "rendering"),
    ("lint", "loadtest", "reporting"),
)
_FULL_PARTS = (
    ("artifacts",),
    ("backends", "client", "engine", "evaluation", "planning", "rendering"),
    ("lint", "loadtest", "reporting"),
)
_FAST = "not e2e and not slow and not gpu and not browser and not promtool"
_FAST_OPTIONS = ("-m", _FAST, "--hypothesis-profile=fast")
# A full run has to stay under 40 minutes: it says where they go.
_FULL_OPTIONS = ("--durations=12",)


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
            help="Without tests marked e2e (a real server and model), browser, and slow (a fifth of a second or more).",
        ),
    ] = False,
) -> None:
    """Run ruff, mypy --strict and pytest; further arguments go to pytest.

    Every check runs, whatever the ones before it said: at the same time without further arguments, but for the tests
    that ask real engines (marked e2e and not light), which run alone after them. Exits with 1 when any of them failed.
    """
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    if context.args:
        failed = _failed_in_turn(checks(fast=fast, pytest_arguments=context.args))
    else:
        failed = _failed_side_by_side(side_by_side(fast=fast))
        if not fast:
            failed += _failed_in_turn([_pytest("pytest, e2e", "-m", f"{_ALONE} and {_all()}", *_FULL_OPTIONS)])
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
    """What is run with further arguments, in this order; pytest last, so that its closing line stands near the end."""
    return [*_static_checks(), _pytest("pytest", *(_FAST_OPTIONS if fast else ("-m", _all())), *pytest_arguments)]


def side_by_side(*, fast: bool) -> list[Check]:
    """What is run at the same time: pytest several times, each with a part of the tests that ask no real engine."""
    options = _FAST_OPTIONS if fast else ("-m", f"not ({_ALONE}) and {_all()}", *_FULL_OPTIONS)
    colour = ("--color=yes",) if sys.stdout.isatty() else ()
    parts = [[f"tests/{name}" for name in part] for part in (_FAST_PARTS if fast else _FULL_PARTS)]
    others = [f"--ignore={folder}" for folder in ("tests/e2e", *(folder for part in parts for folder in part))]
    return [
        *_static_checks(),
        *(
            _pytest(f"pytest, part {number} of {len(parts) + 1}", *options, *colour, *chosen)
            for number, chosen in enumerate([*parts, others], start=1)
        ),
    ]


def _static_checks() -> list[Check]:
    python = sys.executable
    return [Check("ruff", (python, "-m", "ruff", "check", ".")), Check("mypy", (python, "-m", "mypy"))]


def _pytest(name: str, *arguments: str) -> Check:
    return Check(name, (sys.executable, "-m", "pytest", *arguments))


def _failed_in_turn(checks: Sequence[Check]) -> list[str]:
    return [check.name for check in checks if not _passes(check)]


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
    # Hundreds of processes import this package, and pytest rewrites every assertion: once, and not each time.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Those processes find this package through the path; pytest itself finds it through its working folder.
    return {**own, "PYTHONPATH": _home(), "PYTHONUTF8": "1"}
