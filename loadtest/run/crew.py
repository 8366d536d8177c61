"""The processes that generate load: Locust's workers, or this one process."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import gevent
from locust.rpc import Message
from locust.runners import MasterRunner, Runner

from loadtest.errors import LoadTestError

from . import messages

LOCAL = "local"
_POLL_S: Final = 0.1
_SAY_EVERY_S: Final = 5.0


class Crew:
    """Who is there, and how they are told something."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._here: set[str] = set()
        runner.register_message(messages.HERE, self._on_here)

    @property
    def is_remote(self) -> bool:
        """Whether reports come by themselves, from other processes."""
        return isinstance(self._runner, MasterRunner)

    def present(self) -> list[str]:
        """Their ids, in the order in which Locust deals out users.

        Locust calls a worker ready before it listens to our messages; here it is one when it has said that it does.
        """
        if not isinstance(self._runner, MasterRunner):
            return [LOCAL]
        clients = self._runner.clients
        ready = (client.id for client in (*clients.ready, *clients.spawning, *clients.running))
        return dealing_order(worker for worker in ready if worker in self._here)

    def tell(self, member: str, message: str, data: dict[str, Any]) -> None:
        """Send one of them a message."""
        self._runner.send_message(message, data, member)

    def _on_here(self, *, msg: Message, **_: Any) -> None:
        self._here.add(msg.node_id)
        self.tell(msg.node_id, messages.WELCOME, {})


def await_workers(crew: Crew, expected: int, seconds: float, say: Callable[[str], None]) -> None:
    """Return once so many workers have connected. Raises LoadTestError when they have not within that time."""
    began_at = said_at = time.monotonic()
    while (here := len(crew.present())) < expected:
        now = time.monotonic()
        if now - began_at > seconds:
            raise LoadTestError(
                f"{here} of {expected} workers connected within {seconds:g} s: look at why the others did not (their "
                "logs), or ask for fewer with --expect-workers"
            )
        if now - said_at > _SAY_EVERY_S:
            limit = f" of {seconds:g} s" if seconds < math.inf else ""
            say(f"waiting for workers, {now - began_at:.0f} s{limit}: {here} of {expected} have connected")
            said_at = now
        gevent.sleep(_POLL_S)


def dealing_order(workers: Iterable[str]) -> list[str]:
    """Locust's: one worker of each host, then the second of each. Ids are HOST_NUMBER."""
    seen: Counter[str] = Counter()
    places = []
    for worker in sorted(workers):
        host = worker.split("_")[0]
        places.append((seen[host], worker))
        seen[host] += 1
    return [worker for _, worker in sorted(places)]
