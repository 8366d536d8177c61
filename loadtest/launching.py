"""Locust as processes of their own: a command line under gevent would wait for nothing in its usual way."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.bootstrap.interruption import interruption_held
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.wire.parent_death import dying_with_this_process

from .errors import LoadTestError
from .exit_codes import COULD_NOT_RUN

_LOCUSTFILE: Final = Path(__file__).resolve().with_name("locustfile.py")
_POLL_S: Final = 0.1
_CONNECT_S: Final = 60
# How much longer than its stop timeout Locust may take to hand over its results.
_END_S: Final = 30.0
_WORKER_END_S: Final = 5.0
# How long after its last worker the main process may take to end.
_ALONE_S: Final = 20.0
_FIRST_WEB_PORT: Final = 8089
_WEB_PORTS_TRIED: Final = 50


@dataclass(frozen=True, slots=True)
class LocustPlan:
    """What to start.

    Attributes:
        arguments: of Locust's command line and ours, but for those that this module adds.
        workers: processes that generate the load; 0 for one process in all.
        web_port: of the web UI; None for none.
        stop_timeout_s: how long running requests may take when the run is stopped.
    """

    arguments: tuple[str, ...]
    workers: int
    web_port: int | None
    stop_timeout_s: float


def run_locust(plan: LocustPlan, logs: Path, web_ui_is_up: Callable[[], None]) -> int:
    """Run it to its end and return its exit code, which is negative when it was killed.

    A KeyboardInterrupt stops it in order, so that it hands over its results; a second one cuts the requests that still
    run, a third kills it. However this ends, it leaves no process. Workers write to files in `logs`.

    Raises LoadTestError when nobody is left to generate the load, and for a run that was not whole because a worker
    ended before it did; the text has what that worker wrote last.
    """
    processes = _Processes(plan, logs)
    try:
        with interruption_held():
            processes.start()
        return processes.wait(web_ui_is_up)
    finally:
        processes.kill()


def free_web_port(wanted: int | None = None) -> int:
    """`wanted` if it is free; without it the first free port from Locust's own on. Raises LoadTestError."""
    if wanted is not None:
        try:
            _bind(wanted)
        except OSError as error:
            raise LoadTestError(
                f"the web UI cannot have port {wanted} ({(error.strerror or str(error)).lower()}): "
                "give another with --web-port"
            ) from None
        return wanted
    for port in range(_FIRST_WEB_PORT, _FIRST_WEB_PORT + _WEB_PORTS_TRIED):
        with contextlib.suppress(OSError):
            _bind(port)
            return port
    raise LoadTestError(f"no free port for the web UI from {_FIRST_WEB_PORT} on: give one with --web-port")


def _bind(port: int) -> None:
    """Raises OSError when it is taken or not ours to have."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))


class _Processes:
    """The main process, which is the master if there are workers, and the workers."""

    def __init__(self, plan: LocustPlan, logs: Path) -> None:
        self._plan = plan
        self._logs = logs
        self._main: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._alone_since: float | None = None

    def start(self) -> None:
        plan = self._plan
        arguments = [*plan.arguments, "--stop-timeout", f"{plan.stop_timeout_s:.0f}"]
        if plan.web_port is not None:
            arguments += ["--web-host", "127.0.0.1", "--web-port", str(plan.web_port)]
        if not plan.workers:
            self._main = _start(arguments)
            return
        port = free_port()
        self._main = _start(
            [
                *arguments,
                *("--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", str(port)),
                *("--expect-workers", str(plan.workers), "--expect-workers-max-wait", str(_CONNECT_S)),
            ]
        )
        self._logs.mkdir(parents=True, exist_ok=True)
        for number in range(1, plan.workers + 1):
            with self._log(number).open("wb") as log:
                worker = ["--worker", "--master-host", "127.0.0.1", "--master-port", str(port)]
                self._workers.append(_start(worker, output=log.fileno()))

    def wait(self, web_ui_is_up: Callable[[], None]) -> int:
        assert self._main is not None
        announce: Callable[[], None] | None = web_ui_is_up if self._plan.web_port is not None else None
        while True:
            try:
                while self._main.poll() is None:
                    if announce is not None and _listens(self._plan.web_port):
                        announce()
                        announce = None
                    self._require_workers()
                    time.sleep(_POLL_S)
            except KeyboardInterrupt:
                return self._stop(self._main)
            self._require_whole(self._main.returncode)
            return self._main.returncode

    def kill(self) -> None:
        """End what still runs; workers end by themselves when the master has told them to."""
        for worker in self._workers:
            main_ended = self._main is not None and self._main.poll() is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(_WORKER_END_S if main_ended else 0.0)
        for process in (self._main, *self._workers):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _stop(self, main: subprocess.Popen[bytes]) -> int:
        """Each signal once; what was asked for again is asked of Locust again."""
        for _ in range(2):
            main.send_signal(signal.SIGTERM)
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    return main.wait(self._plan.stop_timeout_s + _END_S)
                except subprocess.TimeoutExpired:
                    break
        main.kill()
        return main.wait()

    def _require_workers(self) -> None:
        """Locust ends when it loses its last worker, but not when none ever came."""
        if not self._workers or any(worker.poll() is None for worker in self._workers):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > _ALONE_S:
            raise LoadTestError("all workers ended before the run did\n" + "\n".join(self._lost()))

    def _require_whole(self, code: int) -> None:
        if code == COULD_NOT_RUN and (lost := list(self._lost())):
            raise LoadTestError("\n".join(lost))

    def _lost(self) -> Iterator[str]:
        """What to say of each worker that has ended in disorder."""
        for number, worker in enumerate(self._workers, 1):
            if code := worker.poll():
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
                yield f"worker {number} {how}. What it wrote last:\n{_last_lines(self._log(number))}"

    def _log(self, number: int) -> Path:
        return self._logs / f"loadtest-worker-{number}.log"


def _start(arguments: Sequence[str], output: int | None = None) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C is for the command, which passes it on once.
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-m", "locust", "-f", str(_LOCUSTFILE), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=_environment(os.environ),
        start_new_session=True,
        preexec_fn=dying_with_this_process(),
    )


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Where the repository is, for the worktree of this file and no other."""
    return {**isolated(variables), "PYTHONPATH": str(Layout.of_this_checkout().home), "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _listens(port: int | None) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def _last_lines(log: Path, count: int = 5) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    return "\n".join(f"  {line}" for line in lines) or "  nothing"
