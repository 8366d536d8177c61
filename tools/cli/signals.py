"""Signals that end a command as Ctrl-C does: what it has started is ended first."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


def end_in_order_on(*signals: signal.Signals) -> None:
    """From now on each of them raises KeyboardInterrupt, unless it is ignored: a hang-up is, under nohup."""
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
