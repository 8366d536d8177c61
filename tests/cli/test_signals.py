from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tools.cli.signals import end_in_order_on


@pytest.fixture
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("_handler")
def test_a_signal_is_taken_for_ctrl_c() -> None:
    end_in_order_on(signal.SIGUSR1)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGUSR1)


@pytest.mark.usefixtures("_handler")
def test_one_that_is_ignored_on_purpose_stays_so() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    end_in_order_on(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
