"""The process above one tritonserver: starts it, watches it, ends it, and clears away what is left.

It is told what to run in one JSON line on standard input, which then stays open as a lifeline: when the command that
started it ends, for whatever reason, the pipe closes and the server is stopped, unless the word "detach" came before.
The other way round, tritonserver gets SIGTERM from the kernel when this process is killed.

Standard library only, and one thread: a fork of several threads could not ask for that signal safely.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from tools.bootstrap.locking import try_lock
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.sweep import sweep
from tools.wire.parent_death import dying_with_this_process

DETACH: Final = b"detach\n"
EXIT_STOPPED: Final = 0
EXIT_SERVER_DIED: Final = 1
EXIT_OCCUPIED: Final = 3
EXIT_UNWRITABLE: Final = 4

# tritonserver's own limit for requests in flight, in seconds, and how long after SIGTERM it is killed.
DRAIN_S: Final = 15
KILL_AFTER_S: Final = DRAIN_S + 10

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Order:
    """What to run: the instance, its folder, tritonserver's command line, and the variables its processes get.

    `program` is what the command line runs, for people.
    """

    instance: Instance
    folder: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    program: str = "tritonserver"

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode("utf-8") + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        fields = json.loads(line)
        return cls(
            Instance.from_fields(fields["instance"]),
            fields["folder"],
            tuple(fields["command"]),
            fields["environment"],
            fields["program"],
        )


def main() -> int:
    """Returns EXIT_STOPPED after a stop that was asked for, EXIT_SERVER_DIED after any other end of the server,
    EXIT_OCCUPIED and EXIT_UNWRITABLE when it was not started."""
    # Unbuffered: nothing of what follows the line may be swallowed here.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as orders:
        order = Order.from_line(orders.readline())
    files = InstanceFiles(Path(order.folder))
    # Held until this process ends: that is what tells others that the instance is alive.
    if try_lock(files.lock) is None:
        return EXIT_OCCUPIED
    try:
        return Supervisor(order, files, sys.stdin.fileno()).run()
    except UnwritableError:
        # Not printed: what it would be printed to lies on the same disk.
        return EXIT_UNWRITABLE


class UnwritableError(Exception):
    """The files of the instance cannot be written, so nothing was started."""


class Supervisor:
    """Runs one order to its end."""

    def __init__(self, order: Order, files: InstanceFiles, lifeline: int) -> None:
        self._order = order
        self._files = files
        self._instance = replace(order.instance, supervisor=os.getpid(), started=time.time())
        self._stops_asked = 0
        self._lifeline = lifeline
        self._signals = _signal_pipe((*_STOP_SIGNALS, signal.SIGCHLD))
        self._selector = selectors.DefaultSelector()
        self._selector.register(lifeline, selectors.EVENT_READ, self._on_lifeline)
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signal)

    def run(self) -> int:
        """Returns an exit code, see main(). Raises UnwritableError before anything is started."""
        leftover = Instance.read(self._files)
        if leftover is not None:
            sweep(leftover)
        try:
            self._instance.write(self._files)
        except OSError as error:
            raise UnwritableError from error
        server = self._start()
        self._write(replace(self._instance, server=server.pid, phase="running"))
        while server.poll() is None and not self._stops_asked:
            self._wait(None)
        if self._stops_asked:
            self._say(f"stopping {self._order.program} (process {server.pid})")
            self._write(replace(self._instance, phase="stopping"))
            self._end(server)
        if killed := sweep(self._instance):
            self._say(f"killed what was left of it: {', '.join(map(str, killed))}")
        if self._stops_asked:
            self._files.state.unlink(missing_ok=True)
            return EXIT_STOPPED
        reason = _reason(self._order.program, server.returncode)
        self._say(reason)
        self._write(replace(self._instance, phase="failed", reason=reason))
        return EXIT_SERVER_DIED

    def _start(self) -> subprocess.Popen[bytes]:
        Path(self._instance.sockets).mkdir(mode=0o700, parents=True)
        with self._files.server_log.open("wb") as log:
            return subprocess.Popen(
                self._order.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self._order.environment),
                preexec_fn=dying_with_this_process(),
            )

    def _end(self, server: subprocess.Popen[bytes]) -> None:
        """SIGTERM, on which requests in flight are finished; SIGKILL after a while, or when asked to stop again."""
        if server.poll() is None:
            server.terminate()
        deadline = time.monotonic() + KILL_AFTER_S
        while server.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0 or self._stops_asked > 1:
                why = "it did not end in time" if left <= 0 else "asked to stop again"
                self._say(f"killing {self._order.program}: {why}")
                server.kill()
                server.wait()
                return
            self._wait(left)

    def _wait(self, timeout: float | None) -> None:
        for key, _ in self._selector.select(timeout):
            react: Callable[[], None] = key.data
            react()

    def _on_lifeline(self) -> None:
        word = os.read(self._lifeline, len(DETACH))
        self._selector.unregister(self._lifeline)
        if word == DETACH:
            self._write(replace(self._instance, detached=True))
        else:
            self._say("the command that started this server has ended")
            self._stops_asked += 1

    def _on_signal(self) -> None:
        self._stops_asked += sum(number in _STOP_SIGNALS for number in os.read(self._signals, 64))

    def _write(self, instance: Instance) -> None:
        self._instance = instance
        try:
            instance.write(self._files)
        except OSError as error:
            # A disk that has filled up since is no reason to drop the requests in flight.
            self._say(f"the state cannot be written: {error}")

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(sys.stdout.fileno(), f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())


def _signal_pipe(signals: tuple[signal.Signals, ...]) -> int:
    """A descriptor on which the number of every arriving signal can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in signals:
        signal.signal(number, lambda _number, _frame: None)
    return reading


def _reason(program: str, code: int) -> str:
    if code == -signal.SIGKILL:
        return f"{program} was killed by SIGKILL: by hand, or for want of memory (dmesg | grep -i oom)"
    if code < 0:
        return f"{program} was killed by {signal.Signals(-code).name}"
    return f"{program} ended with exit code {code}"
