"""Commands that run at the same time; what each of them says is shown in its turn."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from tools.bootstrap.interruption import interruption_held

_POLL_S = 0.05
# What a test has started is ended by pytest, which takes a moment.
_END_S = 30.0


class Running:
    """A started command, its output in a file without a name."""

    def __init__(self, command: Sequence[str], home: str, environment: Mapping[str, str], output: IO[bytes]) -> None:
        self._output = output
        # A group of its own: it gets Ctrl-C from `end`, once.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            env=dict(environment),
            process_group=0,
        )

    def show(self) -> int:
        """Write what it has said so far, then what it says until it ends. Returns its exit code."""
        shown = 0
        while True:
            # Before the look at the file, so that the last look comes after the last word.
            code = self._process.poll()
            # Not read(): the command writes at the file's one position.
            while text := os.pread(self._output.fileno(), 1 << 16, shown):
                shown += len(text)
                sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
            if code is not None:
                return code
            time.sleep(_POLL_S)

    def interrupt(self) -> None:
        """Ctrl-C for it, if it still runs."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)

    def wait(self) -> None:
        """Returns when it has ended; it is killed when that takes too long."""
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def started(commands: Sequence[Sequence[str]], home: str, environment: Mapping[str, str]) -> Iterator[list[Running]]:
    """All commands, running. What still runs at the end of the block is interrupted as by Ctrl-C, and waited for."""
    running: list[Running] = []
    with contextlib.ExitStack() as files:
        try:
            for command in commands:
                output = files.enter_context(tempfile.TemporaryFile())
                with interruption_held():
                    running.append(Running(command, home, environment, output))
            yield running
        finally:
            for each in running:
                each.interrupt()
            for each in running:
                each.wait()
