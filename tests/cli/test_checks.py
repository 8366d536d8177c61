from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.cli.app import main
from tools.cli.checks import checks, chromium, side_by_side

TESTS = Path(__file__).resolve().parents[1]
NOT_FAST = "not e2e and not slow and not gpu and not browser and not promtool"
FAST = ("pytest", "-m", NOT_FAST, "--hypothesis-profile=fast")
GPU_TESTS = "tests/x.py::test_on_a_gpu\ntests/y.py::test_on_two\n\n2/300 tests collected\n"


@dataclass(frozen=True)
class Shown:
    """A command that has ended."""

    code: int

    def show(self) -> int:
        return self.code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that were run; one fails if its module is in `failing`."""
    commands: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command[2:])
        return subprocess.CompletedProcess(command, int(command[2] in failing), GPU_TESTS, "")

    @contextlib.contextmanager
    def started(together: Sequence[tuple[str, ...]], *_: object) -> Iterator[list[Shown]]:
        yield [Shown(run(command).returncode) for command in together]

    failing.clear()
    monkeypatch.setattr("tools.cli.checks.subprocess.run", run)
    monkeypatch.setattr("tools.cli.checks.started", started)
    monkeypatch.setattr("tools.cli.checks.end_in_order_on", lambda *_: None)
    return commands


@pytest.fixture(autouse=True)
def browsers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the tests need of PATH: a browser, promtool."""
    on_path = {"google-chrome", "promtool"}
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
    assert checks(fast=True, pytest_arguments=["-x"])[-1].command[2:] == (*FAST, "-x")


@pytest.mark.parametrize(
    ("fast", "options"), [(True, FAST), (False, ("pytest", "-m", "not (e2e and not light) and not gpu"))]
)
def test_every_test_without_real_engines_is_in_one_part_alone(fast: bool, options: tuple[str, ...]) -> None:
    _, _, *parts, others = side_by_side(fast=fast)
    assert all(part.command[2 : 2 + len(options)] == options for part in [*parts, others])
    folders = [
        argument for part in parts for argument in part.command[2 + len(options) :] if not argument.startswith("-")
    ]
    assert folders
    assert all((TESTS.parent / folder).is_dir() for folder in folders)
    assert len(set(folders)) == len(folders)
    assert ["--ignore=tests/e2e", *(f"--ignore={folder}" for folder in folders)] == [
        argument for argument in others.command[2 + len(options) :] if argument.startswith("--ignore")
    ]


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
    assert runs[-4][:3] == ("pytest", "-m", "e2e and not light and not gpu and not browser and not promtool")
    assert all(command[2].endswith("not gpu and not browser and not promtool") for command in runs[-8:-3])
    shown = capsys.readouterr().out
    assert "== not run, they need Chromium (Debian: apt-get install chromium): 2" in shown
    assert "== not run, they need promtool (Debian: apt-get install prometheus): 2" in shown


def test_fast_says_nothing_of_gpus(runs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--fast"]) == 0
    assert [command[0] for command in runs] == ["ruff", "mypy", *["pytest"] * 3]
    assert "GPU" not in capsys.readouterr().out


def test_what_asks_real_engines_runs_alone_after_the_rest(
    runs: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.add("pytest")
    assert main(["test"]) == 1
    assert [command[0] for command in runs[:6]] == ["ruff", "mypy", *["pytest"] * 4]
    assert runs[6] == ("pytest", "-m", "e2e and not light and not gpu", "--durations=12")
    assert capsys.readouterr().out.endswith("; pytest, part 4 of 4; pytest, e2e\n")


def test_fast_with_arguments_is_one_run_of_pytest(runs: list[tuple[str, ...]]) -> None:
    assert main(["test", "--fast", "tests/cli", "-k", "x"]) == 0
    assert runs == [("ruff", "check", "."), ("mypy",), (*FAST, "tests/cli", "-k", "x")]


@pytest.mark.parametrize(
    ("arguments", "module", "said"),
    [
        (["-x"], "ruff", "ruff"),
        (["-x"], "mypy", "mypy"),
        (["-x"], "pytest", "pytest"),
        ([], "mypy", "mypy"),
        ([], "pytest", "; ".join(f"pytest, part {number} of 3" for number in range(1, 4))),
    ],
)
def test_any_failure_counts_and_the_others_run_all_the_same(
    arguments: list[str],
    module: str,
    said: str,
    runs: list[tuple[str, ...]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing.add(module)
    assert main(["test", "--fast", *arguments]) == 1
    assert len(runs) == (3 if arguments else 5)
    assert capsys.readouterr().out.endswith(f"failed: {said}\n")


def test_what_python_compiles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    variables: list[dict[str, str]] = []

    def run(command: tuple[str, ...], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        variables.append(env)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("tools.cli.checks.subprocess.run", run)
    monkeypatch.setattr("tools.cli.checks.end_in_order_on", lambda *_: None)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert main(["test", "--fast", "tests/cli"]) == 0
    assert len(variables) == 3
    assert all("PYTHONDONTWRITEBYTECODE" not in env for env in variables)
