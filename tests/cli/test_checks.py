from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tools.cli.app import main
from tools.cli.checks import checks, chromium

GPU_TESTS = "tests/x.py::test_on_a_gpu\ntests/y.py::test_on_two\n\n2/300 tests collected\n"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that were run; one fails if its module is in `failing`."""
    commands: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command[2:])
        return subprocess.CompletedProcess(command, int(command[2] in failing), GPU_TESTS, "")

    failing.clear()
    monkeypatch.setattr("tools.cli.checks.subprocess.run", run)
    return commands


@pytest.fixture(autouse=True)
def browsers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The browsers on PATH."""
    on_path = {"google-chrome"}
    monkeypatch.setattr("tools.cli.checks.shutil.which", lambda name: f"/bin/{name}" if name in on_path else None)
    return on_path


failing: set[str] = set()


def test_everything_is_linters_types_and_all_tests_that_need_no_gpu() -> None:
    assert [check.command[2:] for check in checks(fast=False, pytest_arguments=["-k", "x"])] == [
        ("ruff", "check", "."),
        ("mypy",),
        ("pytest", "-m", "not gpu", "-k", "x"),
    ]


def test_fast_leaves_out_the_tests_with_a_real_server() -> None:
    assert checks(fast=True, pytest_arguments=[])[-1].command[2:] == (
        "pytest",
        "-m",
        "not e2e and not slow and not gpu and not browser",
    )


def test_all_pass(runs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "-x", "tests/cli"]) == 0
    assert ("pytest", "-m", "not gpu", "-x", "tests/cli") in runs
    shown = capsys.readouterr().out
    assert "== not run, they need a GPU: 2" in shown
    assert "   tests/y.py::test_on_two" in shown


def test_tests_in_a_browser_are_left_out_and_listed_where_there_is_none(
    runs: list[tuple[str, ...]], browsers: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert chromium() == "/bin/google-chrome"
    assert main(["test"]) == 0
    assert "Chromium" not in capsys.readouterr().out
    browsers.clear()
    assert chromium() is None
    assert main(["test"]) == 0
    assert ("pytest", "-m", "not gpu and not browser") in runs
    assert "== not run, they need Chromium (Debian: apt-get install chromium): 2" in capsys.readouterr().out


def test_fast_says_nothing_of_gpus(runs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--fast"]) == 0
    assert len(runs) == 3
    assert "GPU" not in capsys.readouterr().out


@pytest.mark.parametrize("module", ["ruff", "mypy", "pytest"])
def test_any_failure_counts_and_the_others_run_all_the_same(
    module: str, runs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.add(module)
    assert main(["test", "--fast"]) == 1
    assert len(runs) == 3
    assert capsys.readouterr().out.endswith(f"failed: {module}\n")
