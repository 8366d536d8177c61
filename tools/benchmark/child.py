"""A measuring process of its own: its interpreter lock, and its load, are not those of the one that reports."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from tools.serving.server import last_lines
from tools.wire.process_group import kill_group

from .errors import BenchmarkError
from .workload import Tally, Trouble

_END_S = 15.0
_TAIL_LINES = 20


class Child:
    """Answers one JSON line to each it is sent; ends when its standard input does. Used as a context."""

    def __init__(self, command: Sequence[str], home: Path, environment: Mapping[str, str], log: Path) -> None:
        """`log` gets its standard error. Raises OSError when the command cannot be run."""
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=home,
                env=dict(environment),
                text=True,
                encoding="utf-8",
                # A group of its own: Ctrl-C is for the command, and what the process starts ends with it.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            # After an error or Ctrl-C nothing it may still do is of any use.
            self._process.wait(0 if error else _END_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()
            self._process.wait()

    def measure(self, order: BaseModel, seconds: float) -> Tally:
        """Send an order and wait for its tally. Raises BenchmarkError: trouble, its end, or no answer in time."""
        line = self.ask(order.model_dump_json(), seconds)
        if line.startswith('{"error"'):
            raise BenchmarkError(Trouble.model_validate_json(line).error)
        return Tally.model_validate_json(line)

    def ask(self, line: str, seconds: float) -> str:
        """Send a line and return the one it answers with. Raises BenchmarkError: its end, or no answer in time."""
        assert self._process.stdin is not None
        # One that has ended already is found out, with its last words, by who waits for the answer.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self._read_line(seconds)

    def _read_line(self, seconds: float) -> str:
        assert self._process.stdout is not None
        expired = threading.Event()
        timer = threading.Timer(seconds, self._give_up, [expired])
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            how = f"did not answer within {seconds:g} s" if expired.is_set() else "ended"
            tail = "\n".join(f"  {line}" for line in last_lines(self._log, _TAIL_LINES))
            raise BenchmarkError(f"the measuring process {self._process.pid} {how}. The end of what it wrote:\n{tail}")
        return line

    def _give_up(self, expired: threading.Event) -> None:
        expired.set()
        self._kill()

    def _kill(self) -> None:
        kill_group(self._process.pid)
