"""Keeps one engine process serving: starts it, notices its death or silence, starts it again with back-off."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

from tools.wire.launch import EngineLaunch, endpoint_file, requests_endpoint
from tools.wire.messages import Drain, Goodbye, Ping, Pong, ToEngine, ToPeer, Welcome

from .link import EngineLink
from .process import EngineProcess

log = logging.getLogger(__name__)

_POLL_S = 0.1
# From the engine's goodbye to its end, should its library not let it go.
_GOODBYE_S = 1.0
# Beyond the grace of a drain, for an engine to let go of its model.
_DRAIN_MARGIN_S = 10.0
_JOIN_S = 10.0


class State(Enum):
    """Where the engine is in its life; requests are taken in READY only."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class Owner(Protocol):
    """What the supervisor tells: each message of the engine, and each change of its state."""

    def on_message(self, message: ToPeer) -> None:
        """A message other than those of the life cycle."""
        ...

    def on_down(self, reason: str, state: State) -> None:
        """The engine has died: everything in flight is lost. `state` is RESTARTING or FAILED."""
        ...

    def on_ready(self, restarts: int) -> None:
        """The engine takes requests; `restarts` counts how often it had to be started again."""
        ...


@dataclass(frozen=True)
class Patience:
    """Times in seconds. After each death in a row the next pause of `backoff_s`; none left, the engine is given up.

    `stable_s`: an engine that has served this long has recovered, its next death starts the count anew. `silence_s`:
    one that does not answer a ping for this long is killed; it is asked every `ping_interval_s`.
    """

    backoff_s: tuple[float, ...] = (0.5, 1.0, 2.0, 5.0, 10.0)
    stable_s: float = 60.0
    ping_interval_s: float = 2.0
    silence_s: float = 30.0


@dataclass(frozen=True)
class Place:
    """Where engines run: interpreter, folder of the `tools` package, working directory, folder for sockets."""

    python: str
    root: Path
    home: Path
    sockets: Path


class Supervisor:
    """The engine of one model instance. `start` waits for the first engine; a thread watches it from then on."""

    def __init__(
        self,
        place: Place,
        launch: EngineLaunch,
        environment: dict[str, str],
        owner: Owner,
        patience: Patience = Patience(),
    ) -> None:
        self._place = place
        self._patience = patience
        self._launch = launch
        self._environment = environment
        self._owner = owner
        self._generations = itertools.count(1)
        self._state = State.STARTING
        self._process: EngineProcess | None = None
        self._link: EngineLink | None = None
        self._last_pong = time.monotonic()
        self._stopping = threading.Event()
        self._reason = ""
        self._thread = threading.Thread(target=self._watch, name="engine-watch", daemon=True)

    @property
    def state(self) -> State:
        return self._state

    @property
    def reason(self) -> str:
        """Why the engine is not ready, for error texts."""
        return self._reason

    @property
    def welcome(self) -> Welcome | None:
        """What the running engine said of itself."""
        return self._link.welcome if self._link else None

    def start(self) -> None:
        """Start the engine and wait until it is ready.

        Raises RuntimeError with the engine's own reason if it ends, OSError when its interpreter cannot be run and
        ValueError when the path of its socket is too long.
        """
        self._launch_engine()
        if reason := self._await_ready():
            self._state = State.FAILED
            raise RuntimeError(reason)
        self._thread.start()

    def send(self, message: ToEngine) -> None:
        """Send to the running engine; without one the message is lost, and its streams have been failed already."""
        if link := self._link:
            link.send(message)

    def stop(self, grace_s: float) -> None:
        """Let the engine finish what is in flight for `grace_s` seconds, then end it."""
        self._stopping.set()
        # The release router must send nothing new here while what is in flight finishes.
        self._endpoint().unlink(missing_ok=True)
        process = self._process
        if process and self._state is State.READY:
            self.send(Drain(grace_s))
            if not process.wait_for_end(grace_s + _DRAIN_MARGIN_S):
                log.warning("the engine did not end by itself: it is killed")
                process.stop()
        # The thread may be the one that asked Triton for the unloading, once the engine was given up.
        if self._thread.is_alive() and self._state is not State.FAILED:
            self._thread.join(_JOIN_S)
        self._state, self._reason = State.STOPPED, "the model was unloaded"
        self._take_down()

    # One engine

    def _launch_engine(self) -> None:
        name = f"{self._launch.model}-{self._launch.version}"
        socket = self._place.sockets / f"{name}-{os.getpid()}-{next(self._generations)}"
        # Before the process: the error is about the directory, and no process must be left behind.
        requests_endpoint(str(socket))
        launch = msgspec.structs.replace(self._launch, socket=str(socket))
        self._process = EngineProcess(self._place.python, self._place.root, self._place.home, launch, self._environment)
        self._link = EngineLink(str(socket), f"stub-{name}-{os.getpid()}", self._on_message, metrics=True)
        log.info('engine of "%s" version %s: process %d', self._launch.model, self._launch.version, self._process.pid)

    def _await_ready(self) -> str:
        """Empty when the engine is ready, else why it ended."""
        process, link = self._process, self._link
        assert process is not None
        assert link is not None
        while not link.wait_ready(_POLL_S):
            if process.wait_for_end(0):
                reason = process.wait()
                self._take_down()
                return reason
            if reason := link.goodbye:
                self._take_down()
                return reason
            if self._stopping.is_set():
                self._take_down()
                return "the model was unloaded while its engine started"
        self._last_pong = time.monotonic()
        self._state, self._reason = State.READY, ""
        self._publish_endpoint()
        return ""

    def _take_down(self) -> None:
        process, self._process = self._process, None
        link, self._link = self._link, None
        if process:
            process.stop()
        if link:
            link.close()

    def _publish_endpoint(self) -> None:
        assert self._process is not None
        target = self._endpoint()
        temporary = target.with_suffix(".partial")
        temporary.write_text(self._process.socket, encoding="utf-8")
        temporary.replace(target)

    def _endpoint(self) -> Path:
        return endpoint_file(self._place.sockets, self._launch.model, self._launch.version, os.getpid())

    def _on_message(self, message: ToPeer) -> None:
        if isinstance(message, Pong):
            self._last_pong = time.monotonic()
        elif isinstance(message, Goodbye):
            log.warning("the engine says goodbye: %s", message.reason)
        elif not isinstance(message, Welcome):
            self._owner.on_message(message)

    # Its successors

    def _watch(self) -> None:
        patience = self._patience
        deaths = 0
        restarts = 0
        while not self._stopping.is_set():
            ready_since = time.monotonic()
            reason, hopeless = self._wait_for_death()
            if self._stopping.is_set():
                return
            deaths = 1 if time.monotonic() - ready_since > patience.stable_s else deaths + 1
            while True:
                failed = hopeless or deaths > len(patience.backoff_s)
                self._fell(reason, deaths, failed)
                if failed or self._stopping.wait(patience.backoff_s[deaths - 1]):
                    return
                restarts += 1
                reason, hopeless = self._start_again()
                if self._stopping.is_set():
                    return
                if not reason:
                    break
                deaths += 1
            self._owner.on_ready(restarts)

    def _wait_for_death(self) -> tuple[str, bool]:
        process, link = self._process, self._link
        assert process is not None
        assert link is not None
        next_ping = time.monotonic()
        while not process.wait_for_end(_POLL_S):
            now = time.monotonic()
            if now >= next_ping:
                self.send(Ping(0))
                next_ping = now + self._patience.ping_interval_s
            if link.goodbye:
                if not process.wait_for_end(_GOODBYE_S):
                    process.stop()
                process.wait()
                return link.goodbye, process.hopeless
            if now - self._last_pong > self._patience.silence_s:
                process.stop()
                process.wait()
                silence = f"{self._patience.silence_s:g} s"
                return f"engine process {process.pid} did not answer for {silence} and was killed", False
        return process.wait(), process.hopeless

    def _start_again(self) -> tuple[str, bool]:
        try:
            self._launch_engine()
        except (OSError, ValueError) as error:
            return str(error), False
        process = self._process
        reason = self._await_ready()
        return reason, bool(reason and process and process.hopeless)

    def _fell(self, reason: str, deaths: int, failed: bool) -> None:
        self._take_down()
        self._endpoint().unlink(missing_ok=True)
        self._state = State.FAILED if failed else State.RESTARTING
        self._reason = reason
        log.error("%s (death %d of at most %d in a row)", reason, deaths, len(self._patience.backoff_s) + 1)
        self._owner.on_down(reason, self._state)
