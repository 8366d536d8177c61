"""A server as the command that started it holds it: bring it up, watch it, let it go, or stop it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.bootstrap.layout import Layout
from tools.bootstrap.paths import unserved_character
from tools.client.address import Protocol, ServerAddress
from tools.client.server_info import ServerInfo
from tools.serving import backend_directory, ports
from tools.serving.backend_directory import ServerSoftware
from tools.serving.command import server_command, server_environment
from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles, new_id
from tools.serving.stopping import clear_leftovers, describe, wait_for_end
from tools.serving.supervisor import DETACH, EXIT_OCCUPIED, EXIT_STOPPED, EXIT_UNWRITABLE, Order

_POLL_S = 0.1
_LIVE_TIMEOUT_S = 60.0
TAIL_LINES = 20


@dataclass(frozen=True)
class ServerPlan:
    """What to serve and where. `models` are the ones asked for by name, empty for all."""

    port_base: int
    profile: str
    repositories: tuple[Path, ...]
    models: tuple[str, ...] = ()


class Server:
    """A started server. Leaving the context stops it, unless it was detached."""

    def __init__(self, instance: Instance, files: InstanceFiles, supervisor: subprocess.Popen[bytes]) -> None:
        self.instance = instance
        self._files = files
        self._supervisor = supervisor
        assert supervisor.stdin is not None
        self._lifeline = supervisor.stdin
        self._detached = False

    @classmethod
    def start(cls, plan: ServerPlan, layout: Layout) -> Self:
        """Starts the processes. Raises ServingError when one runs there, a port is busy, or software is missing."""
        require_startable(plan.port_base, layout)
        require_served_paths([layout.home, *plan.repositories, *map(Path, plan.models)])
        files = InstanceFiles.at(plan.port_base, layout)
        software = ServerSoftware.of(layout)
        backends = backend_directory.build(software, layout)
        identity = new_id(plan.port_base)
        instance = Instance(
            id=identity,
            port_base=plan.port_base,
            profile=plan.profile,
            repositories=tuple(map(str, plan.repositories)),
            models=plan.models,
            sockets=str(Path(tempfile.gettempdir()) / f"ladder-{identity}"),
        )
        order = Order(
            instance=instance,
            folder=str(files.folder),
            command=server_command(instance, software, backends),
            environment=server_environment(instance, software, layout),
        )
        return cls(instance, files, start_supervisor(order, files, layout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._detached:
            self.stop(lambda _: None)

    @property
    def address(self) -> ServerAddress:
        return ServerAddress.from_port_base(self.instance.port_base)

    @property
    def log(self) -> Path:
        return self._files.server_log

    def wait_until_live(self) -> None:
        """Returns once the front ends answer. Raises ServingError if they never do."""
        deadline = time.monotonic() + _LIVE_TIMEOUT_S
        # HTTP is the last to be opened, and a refused connection costs no back-off there as it does with gRPC.
        with ServerInfo.at(self.address.endpoint(Protocol.HTTP)) as info:
            while not info.is_live():
                self.require_alive()
                if time.monotonic() > deadline:
                    raise ServingError(f"tritonserver does not answer after {_LIVE_TIMEOUT_S:g} s\n{self.log_tail()}")
                time.sleep(_POLL_S)

    def require_alive(self) -> None:
        """Raises ServingError with the reason and the end of the log when the server is gone."""
        if self._supervisor.poll() is None:
            return
        written = Instance.read(self._files)
        if written is not None and written.phase == "failed":
            raise ServingError(f"{written.reason}\n{self.log_tail()}")
        clear_leftovers(self._files)
        if self._supervisor.returncode == EXIT_STOPPED:
            raise ServingError("the server was stopped")
        if self._supervisor.returncode == EXIT_OCCUPIED:
            raise ServingError(f"{describe(self._files)}: another ./ladder up was quicker")
        if self._supervisor.returncode == EXIT_UNWRITABLE:
            raise ServingError(f'"{self._files.folder}" cannot be written: free some space, or mend its rights')
        raise ServingError(
            f"the server's supervisor ended unexpectedly (code {self._supervisor.returncode}), so the server was "
            f'stopped: see "{self._files.supervisor_log}"'
        )

    def detach(self) -> None:
        """Lets the server live on after this process."""
        self._lifeline.write(DETACH)
        self._lifeline.close()
        self._detached = True

    def ask_to_stop(self) -> None:
        """Begins what `stop` then waits for, so that several servers can end at the same time."""
        self._lifeline.close()

    def stop(self, report: Callable[[str], None]) -> None:
        """Stops the server and returns when nothing of it is left. For the main thread."""
        self.ask_to_stop()
        ended = self._supervisor.poll
        wait_for_end(self._supervisor.pid, self.instance.port_base, lambda: ended() is not None, report)
        clear_leftovers(self._files)

    def log_tail(self, lines: int = TAIL_LINES) -> str:
        return f'The end of "{self.log}":\n' + "\n".join(f"  {line}" for line in last_lines(self.log, lines))


def require_startable(port_base: int, layout: Layout) -> None:
    """Clears what a killed server left at a port base. Raises ServingError when one runs there, or a port is busy."""
    files = InstanceFiles.at(port_base, layout)
    if files.supervised():
        raise ServingError(f"{describe(files)}\n./ladder down --port-base {port_base} stops it")
    clear_leftovers(files)
    ports.require_free(port_base)


def require_served_paths(paths: Iterable[Path]) -> None:
    """Raises ServingError for a path from which no model would ever load."""
    for path in paths:
        if character := unserved_character(path):
            raise ServingError(
                f'"{path}" has a {character!r} in it, which tritonserver\'s Python backend cannot take: move it to '
                "a path of ASCII letters, digits and _ - . /"
            )


def last_lines(file: Path, count: int) -> Sequence[str]:
    """The last lines of a text file; none when there is no file."""
    try:
        with file.open(encoding="utf-8", errors="replace") as content:
            return [line.rstrip("\n") for line in deque(content, maxlen=count)]
    except FileNotFoundError:
        return []


def start_supervisor(order: Order, files: InstanceFiles, layout: Layout) -> subprocess.Popen[bytes]:
    """The process that runs the order; its standard input is the lifeline."""
    files.folder.mkdir(parents=True, exist_ok=True)
    with files.supervisor_log.open("ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", str(layout.home / "tools" / "serving")],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A Ctrl-C at the terminal is for the command, which then ends the server in order.
            start_new_session=True,
        )
    assert supervisor.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        # A supervisor that has ended already is found out, with its reason, by whoever waits for the server.
        supervisor.stdin.write(order.to_line())
        supervisor.stdin.flush()
    return supervisor
