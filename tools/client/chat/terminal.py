"""Where the chat reads lines and writes answers: a terminal with line editing, or a pipe."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console
from rich.text import Text

try:
    import readline
except ImportError:  # a Python built without it: no line editing, no history
    readline = None  # type: ignore[assignment]

_HISTORY_LENGTH = 1000
# readline must be told which characters take no space on the screen.
_PROMPT = "\001\033[1;36m\002you>\001\033[0m\002 "


class Terminal(Protocol):
    """What the chat needs of its surroundings."""

    interactive: bool

    def read_line(self) -> str:
        """The next line. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""

    def write_answer(self, piece: str) -> None:
        """Write a piece of an answer at once."""

    def end_answer(self) -> None:
        """End the answer's last line."""

    def notice(self, text: str) -> None:
        """Tell something that is no answer."""

    def error(self, text: str) -> None:
        """Tell what went wrong."""


class StandardTerminal:
    """stdin, stdout and stderr. Answers go to stdout; everything else to stderr, so that a pipe gets answers only."""

    def __init__(self, lines: TextIO | None = None, answers: TextIO | None = None) -> None:
        self._lines = lines or sys.stdin
        self._answers = answers or sys.stdout
        self._console = Console(stderr=True)
        self.interactive = self._lines.isatty()

    def read_line(self) -> str:
        """See `Terminal.read_line`."""
        if self.interactive:
            return input(_PROMPT)
        line = self._lines.readline()
        if not line:
            raise EOFError
        return line

    def write_answer(self, piece: str) -> None:
        """See `Terminal.write_answer`."""
        self._answers.write(piece)
        self._answers.flush()

    def end_answer(self) -> None:
        """See `Terminal.end_answer`."""
        self.write_answer("\n")

    def notice(self, text: str) -> None:
        """See `Terminal.notice`."""
        self._console.print(Text(text, style="dim"), soft_wrap=True)

    def error(self, text: str) -> None:
        """See `Terminal.error`."""
        self._console.print(Text(f"error: {text}", style="red"), soft_wrap=True)


@contextmanager
def line_editing(history: Path, words: Sequence[str]) -> Iterator[None]:
    """Lines can be edited and recalled within the block, also those of earlier chats; Tab completes the given words."""
    if readline is None:
        yield
        return
    if history.exists():
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LENGTH)
    readline.set_completer_delims(" ")
    readline.set_completer(lambda text, state: _completion(words, text, state))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        _save_history(history)


def _completion(words: Sequence[str], text: str, state: int) -> str | None:
    matches = [word for word in words if text and word.startswith(text)]
    return matches[state] if state < len(matches) else None


def _save_history(history: Path) -> None:
    history.parent.mkdir(parents=True, exist_ok=True)
    partial = history.with_name(f"{history.name}.{os.getpid()}")
    # Questions may be private: nobody else may read them, not even for a moment.
    partial.touch(mode=0o600)
    readline.write_history_file(partial)
    partial.replace(history)
