"""The engines that the router can reach: found by their endpoint files, greeted, and missed when they are gone.

A model's stub writes the file when its engine is ready and removes it when the engine is to take nothing new: what is
in flight then still ends in order. That an engine has ended is told at once by a handle on its process.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import select
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tools.wire.launch import ENDPOINT_SUFFIX
from tools.wire.messages import Delta, Step, ToEngine, ToPeer, Welcome

from ..link import EngineLink

log = logging.getLogger(__name__)

_LOOK_S = 0.1
_ENDPOINT_FILE = re.compile(rf"(.+)-(\d+)-(\d+){re.escape(ENDPOINT_SUFFIX)}")
# What the engines behind `chat_tokenizer` and `chat` say of themselves.
_TOKENIZER = "tokenizer"

# Model and version.
Identity = tuple[str, int]


class Endpoint(NamedTuple):
    """What an endpoint file says: whose engine it is, the stub that started it, and its socket."""

    identity: Identity
    stub_pid: int
    socket: str


class Owner(Protocol):
    """What the peers tell; from the threads of their links, and of the watch."""

    def on_step(self, peer: EnginePeer, deltas: list[Delta]) -> None:
        """What an engine produced."""
        ...

    def on_lost(self, peer: EnginePeer) -> None:
        """An engine has ended, and with it whatever was in flight to it."""
        ...


class EnginePeer:
    """One engine; `in_flight` counts the router's requests and copies there, and is the router's to keep."""

    def __init__(self, endpoint: Endpoint, name: str, owner: Owner) -> None:
        self.identity = endpoint.identity
        self.endpoint = endpoint
        self.in_flight = 0
        self.retiring = False
        self._owner = owner
        self._pidfd = -1
        self._ended = False
        self._link = EngineLink(endpoint.socket, name, self._on_message, metrics=False)

    @property
    def ready(self) -> bool:
        """Whether it takes requests. A tokenizer's engine generates nothing."""
        welcome = self._link.welcome
        return not self.retiring and not self._ended and welcome is not None and welcome.engine != _TOKENIZER

    @property
    def greeted(self) -> bool:
        """Whether the engine has answered."""
        return self._link.welcome is not None

    @property
    def pidfd(self) -> int:
        """A handle that becomes readable when the engine's process ends; -1 as long as there is none."""
        if self._pidfd < 0 and not self._ended and (welcome := self._link.welcome):
            try:
                self._pidfd = os.pidfd_open(welcome.pid)
            except ProcessLookupError:
                self._ended = True
        return self._pidfd

    @property
    def ended(self) -> bool:
        """Whether its process has ended; for the thread that watches."""
        if not self._ended and self.pidfd >= 0:
            self._ended = _wait_for_any([self._pidfd], 0)
        return self._ended

    def send(self, message: ToEngine) -> None:
        """Send without waiting; what is sent to an engine that has ended is lost, and `on_lost` follows."""
        self._link.send(message)

    def close(self) -> None:
        """Free the sockets."""
        self._link.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _on_message(self, message: ToPeer) -> None:
        if isinstance(message, Step):
            self._owner.on_step(self, message.deltas)
        elif isinstance(message, Welcome) and message.engine != _TOKENIZER:
            model, version = self.identity
            log.info('"%s" version %d can be reached: %s, process %d', model, version, message.engine, message.pid)


class EnginePeers:
    """All engines in a folder of endpoint files; a thread of its own looks for new ones and for those that end."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self._folder = folder
        self._owner = owner
        self._numbers = itertools.count(1)
        # Replaced as a whole, so that it can be read without a lock.
        self._by_target: Mapping[Identity, tuple[EnginePeer, ...]] = {}
        self._peers: dict[Endpoint, EnginePeer] = {}
        # Those that have ended, as their owner knows.
        self._told: set[Endpoint] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peers-watch", daemon=True)

    def start(self) -> None:
        """Greet the engines that are there, and begin to look for others."""
        self._look()
        self._thread.start()

    def of(self, identity: Identity) -> tuple[EnginePeer, ...]:
        """The engines of a target: one for each instance of the model."""
        return self._by_target.get(identity, ())

    def ready_targets(self) -> list[Identity]:
        """Targets with an engine that takes requests, sorted."""
        return sorted(identity for identity, peers in self._by_target.items() if any(peer.ready for peer in peers))

    def stop(self) -> None:
        """Let go of all engines."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
        self._by_target = {}

    def _watch(self) -> None:
        problem = ""
        while not self._stopping.is_set():
            try:
                self._wait()
                self._look()
                problem = ""
            except Exception as error:  # without this thread no engine would be found or missed any more
                if str(error) != problem:
                    problem = str(error)
                    log.exception('engines cannot be looked for in "%s", it is tried again', self._folder)
                self._stopping.wait(_LOOK_S)

    def _wait(self) -> None:
        """Return at the next end of an engine, or after `_LOOK_S`."""
        handles = [peer.pidfd for endpoint, peer in self._peers.items() if endpoint not in self._told]
        handles = [handle for handle in handles if handle >= 0]
        if handles:
            _wait_for_any(handles, _LOOK_S)
        else:
            self._stopping.wait(_LOOK_S)

    def _look(self) -> None:
        found = set(endpoints(self._folder))
        for endpoint in found - self._peers.keys():
            self._peers[endpoint] = EnginePeer(endpoint, f"router-{os.getpid()}-{next(self._numbers)}", self._owner)
        for endpoint, peer in list(self._peers.items()):
            peer.retiring = endpoint not in found
            # Asked once: an engine that ends between two questions would be let go of and never missed.
            ended = peer.ended
            if ended and endpoint not in self._told:
                self._told.add(endpoint)
                self._lose(peer)
            # The file of one that has ended stays until its stub has noticed; until then it is no new engine.
            if peer.retiring and (ended or not peer.greeted):
                self._told.discard(endpoint)
                del self._peers[endpoint]
                peer.close()
        self._publish()

    def _publish(self) -> None:
        by_target: defaultdict[Identity, list[EnginePeer]] = defaultdict(list)
        for peer in self._peers.values():
            by_target[peer.identity].append(peer)
        self._by_target = {identity: tuple(peers) for identity, peers in by_target.items()}

    def _lose(self, peer: EnginePeer) -> None:
        model, version = peer.identity
        log.warning('the engine of "%s" version %d has ended', model, version)
        self._owner.on_lost(peer)


def _wait_for_any(handles: Iterable[int], seconds: float) -> bool:
    """Whether one of the handles becomes readable within `seconds`."""
    poll = select.poll()
    for handle in handles:
        poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))


def endpoints(folder: Path) -> Iterator[Endpoint]:
    """What the endpoint files in `folder` say. Those that a dead stub left behind, and other files, are passed over.

    Raises OSError when the folder cannot be read.
    """
    for file in folder.iterdir():
        named = _ENDPOINT_FILE.fullmatch(file.name)
        if named is None:
            continue
        try:
            socket = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            # Removed since the folder was read.
            continue
        model, version, stub_pid = named.groups()
        if Path(f"/proc/{stub_pid}").exists():
            yield Endpoint((model, int(version)), int(stub_pid), socket)
