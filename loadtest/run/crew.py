"""The processes that generate load: Locust's workers, or this one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from locust.runners import MasterRunner, Runner

LOCAL = "local"


class Crew:
    """Who is there, and how they are told something."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def is_remote(self) -> bool:
        """Whether reports come by themselves, from other processes."""
        return isinstance(self._runner, MasterRunner)

    def present(self) -> list[str]:
        """Their ids, in the order in which Locust deals out users."""
        if not isinstance(self._runner, MasterRunner):
            return [LOCAL]
        clients = self._runner.clients
        return dealing_order(client.id for client in (*clients.ready, *clients.spawning, *clients.running))

    def tell(self, member: str, message: str, data: dict[str, Any]) -> None:
        """Send one of them a message."""
        self._runner.send_message(message, data, member)


def dealing_order(workers: Iterable[str]) -> list[str]:
    """Locust's: one worker of each host, then the second of each. Ids are HOST_NUMBER."""
    seen: Counter[str] = Counter()
    places = []
    for worker in sorted(workers):
        host = worker.split("_")[0]
        places.append((seen[host], worker))
        seen[host] += 1
    return [worker for _, worker in sorted(places)]
