"""However Locust ends, the exit code is one of this load test's.

Locust ends with 1, or with -1, when it cannot begin, and Python with 1 after an error. Here 1 says that the SLA was
missed, so whatever ends the process without the verdict of a run counts as a run that could not be made.
"""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Final, NoReturn

from locust.event import Events
from locust.exception import RPCError
from rich.console import Console
from rich.text import Text

from loadtest.errors import LoadTestError
from loadtest.exit_codes import COULD_NOT_RUN

# What is wrong around the program and not in it: one line says all.
_EXPECTED: Final = (LoadTestError, OSError, RPCError)


class Exits:
    """Stands between Locust and the interpreter; Locust has no event for the ends that this is about.

    Attributes:
        verdict: the exit code of a run that ended in order; None before.
    """

    def __init__(self) -> None:
        self.verdict: int | None = None

    def install(self, events: Events) -> None:
        """From now on, for as long as the process lives."""
        events.quit.add_listener(self._hear)
        sys.exit = self.exit
        sys.excepthook = self.end_with
        # A log that cannot be written is no reason for a traceback a line.
        logging.raiseExceptions = False

    def exit(self, code: object = None) -> NoReturn:
        """In place of `sys.exit`."""
        if isinstance(code, str):
            say_error(code)
        raise SystemExit(code if code in (None, 0, self.verdict) else COULD_NOT_RUN)

    def end_with(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> NoReturn:
        """In place of `sys.excepthook`."""
        if isinstance(error, KeyboardInterrupt):
            say_error("interrupted before the run began")
        elif isinstance(error, _EXPECTED):
            say_error(_in_a_line(error))
        else:
            sys.__excepthook__(kind, error, traceback)
        # Python takes the code from here.
        raise SystemExit(COULD_NOT_RUN)

    def _hear(self, *, exit_code: int, **_: object) -> None:
        self.verdict = exit_code


def say_error(text: str) -> None:
    """One line on stderr, wherever it may break."""
    Console(stderr=True, highlight=False).print(Text(f"error: {text}", style="red"), soft_wrap=True)


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f'"{error.filename}" cannot be used: {(error.strerror or str(error)).lower()}'
    return str(error)
