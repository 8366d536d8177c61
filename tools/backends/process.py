"""One engine process: started with a lifeline, waited for, and taken down with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tools.wire.launch import ANSWERS_SUFFIX, REASON_SUFFIX, REQUESTS_SUFFIX, EngineLaunch
from tools.wire.process_group import kill_group

# A pause this long between SIGTERM-like requests and SIGKILL is enough to flush a log line.
_KILL_WAIT_S = 5.0


class EngineProcess:
    """A running `python -m tools.engine`, in a session and process group of its own."""

    def __init__(
        self, python: str, root: Path, home: Path, launch: EngineLaunch, environment: Mapping[str, str]
    ) -> None:
        """Start it. `root` holds the `tools` package; `home` is what relative paths in model.json are relative to.

        Raises OSError when `python` cannot be run in `home`.
        """
        self.socket = launch.socket
        self._sockets = [Path(launch.socket + suffix) for suffix in (REQUESTS_SUFFIX, ANSWERS_SUFFIX)]
        self._reason = Path(launch.socket + REASON_SUFFIX)
        self._reason.unlink(missing_ok=True)
        try:
            self._process = subprocess.Popen(
                [python, "-m", "tools.engine"],
                stdin=subprocess.PIPE,
                cwd=home,
                env=engine_environment(environment, root),
                start_new_session=True,
            )
        except OSError as error:
            raise OSError(
                f'the engine\'s interpreter "{python}" cannot be run in "{home}" ({error.strerror}): name another with '
                "LADDER_ENGINE_PYTHON in the environment or ENGINE_PYTHON in config.pbtxt"
            ) from error
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            # Left open on purpose: the engine ends when this end of the pipe does.
            stdin.write(msgspec.json.encode(launch) + b"\n")
            stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> str:
        """Wait for the end, take down what it left of its process group, and say why it ended."""
        status = self._process.wait()
        self._kill_group()
        if reason := self._read_reason():
            return reason
        if status < 0:
            return f"engine process {self.pid} was killed by {signal.Signals(-status).name}"
        return f"engine process {self.pid} ended with status {status}"

    @property
    def hopeless(self) -> bool:
        """Whether it ended because it cannot start with what it was given, so that another try is of no use."""
        return self._process.returncode == 2

    def stop(self) -> None:
        """Take it down at once, with its children; returns when it is gone."""
        self._kill_group()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_WAIT_S)

    def wait_for_end(self, seconds: float) -> bool:
        """Whether it ends by itself within `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _kill_group(self) -> None:
        kill_group(self.pid)
        # An engine that was killed could not remove its sockets itself.
        for path in self._sockets:
            path.unlink(missing_ok=True)

    def _read_reason(self) -> str:
        try:
            return self._reason.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        finally:
            self._reason.unlink(missing_ok=True)


def engine_environment(
    extra: Mapping[str, str], root: Path, variables: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What an engine gets: `variables`, those of tritonserver, made fit for another interpreter, then `extra`."""
    environment = dict(variables)
    # The server's library path may hold its own copies of common libraries: the engine has one to itself, or none.
    environment.pop("LD_LIBRARY_PATH", None)
    if library_path := environment.get("LADDER_ENGINE_LIBRARY_PATH"):
        environment["LD_LIBRARY_PATH"] = library_path
    environment.pop("PYTHONHOME", None)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), environment.get("PYTHONPATH")]))
    environment["PYTHONUNBUFFERED"] = "1"
    environment["PYTHONUTF8"] = "1"
    environment.update(extra)
    return environment
