from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tools.bootstrap.interruption import interruption_held
from tools.cli.signals import end_in_order_on


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_comes_when_the_block_has_noted_what_it_started(number: signal.Signals) -> None:
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    started = []

    def start() -> None:
        with interruption_held():
            signal.raise_signal(number)
            signal.raise_signal(number)
            started.append("noted")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert started == ["noted"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_it_comes_too_when_the_block_fails() -> None:
    def fail_to_start() -> None:
        with interruption_held():
            signal.raise_signal(signal.SIGINT)
            raise FileNotFoundError

    with pytest.raises(KeyboardInterrupt):
        fail_to_start()


def test_without_a_signal_nothing_comes() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interruption_held():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_ignored_on_purpose_stays_so_for_the_process_that_is_started() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interruption_held():
        signal.raise_signal(signal.SIGHUP)
        code = subprocess.run(["sh", "-c", "kill -HUP $$; exit 7"], check=False).returncode
    assert code == 7


def test_in_another_thread_there_is_nothing_to_hold() -> None:
    entered = threading.Event()

    def enter() -> None:
        with interruption_held():
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(30)
    assert entered.is_set()
