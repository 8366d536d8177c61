from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.bootstrap.conftest import Checkout
from tools.bootstrap import preparation
from tools.bootstrap.environments import build, is_ready
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.locking import exclusive, is_held
from tools.bootstrap.preparation import prepare
from tools.bootstrap.processes import Runner
from tools.bootstrap.progress import ReportedProgress


@pytest.fixture(autouse=True)
def draw_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "DRAW_EVERY", 0.02)


def wait_until_installing(checkout: Checkout, environments: int = 1) -> None:
    deadline = time.monotonic() + 20
    while sum("-r " in call for call in checkout.calls) < environments:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_missing_environments_are_built_and_ready_ones_left_alone(checkout: Checkout) -> None:
    both = [checkout.environment("first"), checkout.environment("second")]
    prepare(both, checkout.layout)
    assert all(is_ready(environment, checkout.layout) for environment in both)
    calls = len(checkout.calls)
    prepare(both, checkout.layout)
    assert len(checkout.calls) == calls


def test_progress_is_written_line_by_line_without_a_terminal(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare([checkout.environment()], checkout.layout)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("  small environment  0:")
    assert lines[-1].endswith("ready")


@pytest.mark.slow
def test_one_failure_ends_the_other_build_and_is_reported(checkout: Checkout) -> None:
    checkout.behaves(
        """
if any(argument.endswith("bad.txt") for argument in arguments):
    print("No space left on device")
    sys.exit(1)
if any(argument.endswith("good.txt") for argument in arguments):
    time.sleep(60)
"""
    )
    both = [checkout.environment("bad"), checkout.environment("good")]
    with pytest.raises(BootstrapError, match="the bad environment could not be built"):
        prepare(both, checkout.layout)
    assert not any(is_ready(environment, checkout.layout) for environment in both)


@pytest.mark.slow
def test_an_interruption_ends_the_installation_and_the_next_run_starts_it_again(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.behaves("if '-r' in arguments:\n    time.sleep(60)")
    environment = checkout.environment()

    def interrupt(_seconds: float) -> None:
        wait_until_installing(checkout)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(preparation, "time", SimpleNamespace(sleep=interrupt))
        with pytest.raises(KeyboardInterrupt):
            prepare([environment], checkout.layout)
    assert not is_ready(environment, checkout.layout)
    assert not is_held(checkout.layout.environments / "small.lock")
    checkout.behaves("")
    prepare([environment], checkout.layout)
    assert is_ready(environment, checkout.layout)


def test_a_second_launcher_waits_for_the_first_and_does_not_build_again(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = checkout.environment()
    second = threading.Thread(target=prepare, args=([environment], checkout.layout))
    with exclusive(checkout.layout.environments / "small.lock", lambda _: None):
        second.start()
        deadline = time.monotonic() + 20
        while "is building it, waiting" not in (shown := capsys.readouterr().err):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "another ./ladder (process " in shown
        build(environment, checkout.layout, Runner(), lambda _: None)
        calls = len(checkout.calls)
    second.join()
    assert len(checkout.calls) == calls


@pytest.mark.slow
def test_an_environment_that_a_server_runs_from_is_not_replaced(checkout: Checkout) -> None:
    environment = checkout.environment()
    prepare([environment], checkout.layout)
    checkout.lock("small", "one==2\n")
    with (
        exclusive(checkout.layout.runs / "8000" / "lock", lambda _: None),
        pytest.raises(BootstrapError, match=r'"small.txt" changed .* ./ladder down --port-base 8000, then again'),
    ):
        prepare([environment], checkout.layout)
    prepare([environment], checkout.layout)
    assert is_ready(environment, checkout.layout)


def test_progress_goes_to_a_caller_that_draws_its_own(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    phases: list[str] = []
    prepare([checkout.environment()], checkout.layout, ReportedProgress(phases.append))
    assert phases[-1] == "small environment: ready"
    assert len(phases) == len(set(phases))
    assert capsys.readouterr().err == ""


def test_an_environment_that_serves_nothing_is_built_beneath_a_running_instance(checkout: Checkout) -> None:
    serving, other = checkout.environment("serving"), replace(checkout.environment("other"), serves=False)
    with exclusive(checkout.layout.runs / "8000" / "lock", lambda _: None):
        prepare([other], checkout.layout)
        with pytest.raises(BootstrapError, match=r'^"serving.txt" changed since the environments were built'):
            prepare([serving], checkout.layout)
    assert is_ready(other, checkout.layout)
