"""Child processes of an installation: each line goes to a log, and an interruption ends all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

TAIL_LINES = 12

# What a user's shell may hold that would change what an isolated environment imports, or keep it from storing bytecode.
PYTHON_VARIABLES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPYCACHEPREFIX",
    "VIRTUAL_ENV",
)
# Settings of pip that would install somewhere else; the others (indexes, proxies, certificates) are the user's to make.
PIP_VARIABLES = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT")


class CommandFailedError(Exception):
    """A command of an installation ended with an error; `tail` holds the last lines it wrote."""

    def __init__(self, code: int, tail: Sequence[str]) -> None:
        super().__init__(f"exit code {code}")
        self.code = code
        self.tail = tuple(tail)


class InterruptedInstallationError(Exception):
    """Another thread asked for all commands to end."""


class Runner:
    """Runs commands, and ends those still running when `stop` is called from another thread."""

    def __init__(self, inherited: Sequence[int] = ()) -> None:
        # Lock files stay held by a command that outlives a killed launcher.
        self._inherited = tuple(inherited)
        self._running: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, command: Sequence[str | Path], log: Path, on_line: Callable[[str], None] = lambda _: None) -> None:
        """Runs one command, appends its output to `log`. Raises CommandFailedError or InterruptedInstallationError."""
        tail: deque[str] = deque(maxlen=TAIL_LINES)
        with log.open("a", encoding="utf-8") as out:
            out.write(f"\n$ {' '.join(str(part) for part in command)}\n")
            process = self._start(command)
            try:
                for line in process.stdout or ():
                    out.write(line)
                    out.flush()
                    tail.append(line.rstrip())
                    on_line(line)
                code = process.wait()
            finally:
                with self._guard:
                    self._running.discard(process)
        if self._stopped:
            raise InterruptedInstallationError
        if code != 0:
            raise CommandFailedError(code, tail)

    def stop(self) -> None:
        """Ends every running command, and refuses further ones."""
        with self._guard:
            self._stopped = True
            for process in self._running:
                # With what it has started: `python -m venv` runs ensurepip in a process of its own.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def _start(self, command: Sequence[str | Path]) -> subprocess.Popen[str]:
        with self._guard:
            if self._stopped:
                raise InterruptedInstallationError
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=for_installing(os.environ),
                pass_fds=self._inherited,
                # A Ctrl-C at the terminal reaches the launcher alone, which then ends the commands in order.
                start_new_session=True,
            )
            self._running.add(process)
            return process


def isolated(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without Python's own settings."""
    return {name: value for name, value in variables.items() if name not in PYTHON_VARIABLES}


def for_installing(variables: Mapping[str, str]) -> dict[str, str]:
    """`isolated`, with pip told to ask nothing and to install into the environment it belongs to."""
    kept = {name: value for name, value in isolated(variables).items() if name not in PIP_VARIABLES}
    return kept | {
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_USER": "0",
        "PIP_PROGRESS_BAR": "off",
    }
