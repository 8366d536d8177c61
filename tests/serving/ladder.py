"""Running `./ladder` as a user does, and looking at what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bootstrap.layout import Layout
from tools.serving.status import InstanceStatus, status_of

HOME = Path(__file__).resolve().parents[2]
MOCK_MODELS = HOME / "tests" / "fixtures" / "serving_repository"
SERVING = "Serving:"


def ladder(*arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end; stdout and stderr apart."""
    return subprocess.run(
        [HOME / "ladder", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


class Foreground:
    """A `./ladder up`, or another command, that stays; its output is in `log`."""

    def __init__(self, log: Path, *arguments: str, command: Sequence[str] = ("up",)) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [HOME / "ladder", *command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_until(self, text: str, seconds: float = 60) -> None:
        """Returns once the output holds `text`; an end of the process before that is a failure."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.output}"
            assert time.monotonic() < deadline, f'no "{text}" within {seconds} s:\n{self.output}'
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends it to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def status(port_base: int) -> InstanceStatus | None:
    """The instance at a port base, as `./ladder status` sees it; None when there is none."""
    return status_of(port_base, Layout.of_this_checkout())


def server_log(port_base: int) -> str:
    """What tritonserver and everything below it has written so far."""
    return (HOME / ".ladder" / "run" / str(port_base) / "server.log").read_text(encoding="utf-8")


def running(port_base: int) -> InstanceStatus:
    """The instance at a port base, which has to be there."""
    instance = status(port_base)
    assert instance is not None
    return instance


def process_of(instance: InstanceStatus, role: str) -> int:
    """Id of the process whose role begins with `role`."""
    return next(process.pid for process in instance.processes if process.role.startswith(role))


def assert_nothing_left(port_base: int) -> None:
    """No process, socket folder, shared memory or listener of any instance at this port base."""
    mark = re.compile(rb"LADDER_INSTANCE=%d-[0-9a-f]+\0" % port_base)
    assert wait_for(lambda: not _processes_with(mark)), f"left: {_processes_with(mark)}"
    assert list(Path("/dev/shm").glob(f"ladder-{port_base}-*")) == []
    assert list(Path(tempfile.gettempdir()).glob(f"ladder-{port_base}-*")) == []
    for port in range(port_base, port_base + 3):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"something listens on port {port}"


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return true


def _processes_with(mark: re.Pattern[bytes]) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark.search((folder / "environ").read_bytes()):
                    found.append(f"{folder.name} {(folder / 'comm').read_text(encoding='utf-8').strip()}")
    return found
