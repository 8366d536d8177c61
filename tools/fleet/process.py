"""A server or the proxy that is started again whenever it ends, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tools.serving.errors import ServingError
from tools.serving.server import Server

from .files import Phase, ProcessState

_POLL_S: Final = 0.3
# Between an end and the next start, doubled each time it did not even become ready.
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0

Tell = Callable[[str], None]


class KeptProcess:
    """One process of a fleet.

    `launch` starts it; `make_ready` returns when it can answer, and gets what to call when it begins to load. Both may
    raise ServingError and OSError, `make_ready` soon after the server was asked to stop. A process that never was ready
    is not tried again: `failed` is set instead.
    """

    def __init__(
        self,
        name: str,
        launch: Callable[[], Server],
        make_ready: Callable[[Server, Callable[[], None]], str],
        tell: Tell,
    ) -> None:
        self.state = ProcessState(name=name)
        self.failed = False
        self._launch = launch
        self._make_ready = make_ready
        self._tell = tell
        self._server: Server | None = None
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keep-{name}", daemon=True)

    def start(self) -> None:
        """Begin; the state says how it goes."""
        self._thread.start()

    @property
    def ready(self) -> bool:
        return self.state.phase == "ready"

    def ask_to_stop(self) -> None:
        """Begin what `stop` waits for."""
        self._stopping.set()
        with self._guard:
            if self._server is not None:
                self._server.ask_to_stop()

    def stop(self, report: Callable[[str], None]) -> None:
        """End it for good; returns when nothing of it is left. For the main thread."""
        self.ask_to_stop()
        if self._thread.ident is not None:
            self._thread.join()
        if self._server is not None:
            self._server.stop(report)

    def _keep(self) -> None:
        pause, was_ready = _FIRST_PAUSE_S, False
        while not self._stopping.is_set():
            try:
                self._run_once()
            except (ServingError, OSError) as error:
                if self._stopping.is_set():
                    return
                became_ready = self.state.phase == "ready"
                self._become("down", str(error))
                if not (was_ready or became_ready):
                    self.failed = True
                    return
                was_ready = True
                pause = _FIRST_PAUSE_S if became_ready else min(2 * pause, _LONGEST_PAUSE_S)
                self._tell(f"{self.state.name} ended: {_first_line(str(error))}. Starting it again in {pause:g} s")
                self._stopping.wait(pause)

    def _run_once(self) -> None:
        """Returns when it is to stop. Raises ServingError when the process ends before."""
        self.state = self.state.model_copy(update={"starts": self.state.starts + 1})
        self._become("starting", self.state.reason)
        server = self._launch()
        with self._guard:
            self._server = server
            if self._stopping.is_set():
                server.ask_to_stop()
        self._become("ready", self._make_ready(server, lambda: self._become("loading", self.state.reason)))
        while not self._stopping.wait(_POLL_S):
            server.require_alive()

    def _become(self, phase: Phase, reason: str) -> None:
        if phase == "starting" or (phase != "down" and self.state.phase != phase):
            again = f", start {self.state.starts}" if self.state.starts > 1 else ""
            self._tell(f"{self.state.name} {phase}{again}" + (f": {reason}" if phase == "ready" and reason else ""))
        self.state = self.state.model_copy(update={"phase": phase, "reason": reason})


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
