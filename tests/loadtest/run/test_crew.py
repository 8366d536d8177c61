"""Who is there, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from locust.dispatch import UsersDispatcher
from locust.rpc import Message
from locust.runners import MasterRunner, WorkerNode
from locust.user import User

from loadtest.errors import LoadTestError
from loadtest.run import crew, messages
from loadtest.run.crew import Crew, await_workers, dealing_order
from tests.loadtest.run.fakes import FakeCrew


class Master(MasterRunner):
    """Locust's, without a network: two workers are ready."""

    def __init__(self) -> None:
        self.listeners: dict[str, Any] = {}
        self.sent: list[tuple[str, Any, str | None]] = []
        self.greenlet = None  # type: ignore[assignment]
        ready = [WorkerNode("host_1"), WorkerNode("host_2")]
        self.clients = SimpleNamespace(ready=ready, spawning=[], running=[])  # type: ignore[assignment]

    def register_message(self, msg_type: str, listener: Any, concurrent: bool = False) -> None:
        self.listeners[msg_type] = listener

    def send_message(self, msg_type: str, data: Any = None, client_id: str | None = None) -> None:
        self.sent.append((msg_type, data, client_id))


def test_a_worker_is_there_when_it_has_said_that_it_listens() -> None:
    master = Master()
    crew = Crew(master)
    assert crew.present() == []

    master.listeners[messages.HERE](msg=Message(messages.HERE, {}, "host_2"))

    assert crew.present() == ["host_2"]
    assert master.sent == [(messages.WELCOME, {}, "host_2")]


@pytest.mark.slow
def test_workers_are_waited_for_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_SAY_EVERY_S", 0.0)
    said: list[str] = []
    there = FakeCrew(["host_1", "host_2"])
    await_workers(there, 2, 1, said.append)  # type: ignore[arg-type]
    assert said == []
    with pytest.raises(LoadTestError) as gave_up:
        await_workers(there, 3, 0.3, said.append)  # type: ignore[arg-type]
    assert said[0] == "waiting for workers, 0 s of 0.3 s: 2 of 3 have connected"
    assert str(gave_up.value).startswith("2 of 3 workers connected within 0.3 s: look at why the others did not")


def test_the_order_is_the_one_in_which_locust_deals_out_users() -> None:
    ids = ["b_3", "a_9", "a_1", "c_2", "a_5", "b_1"]
    dispatcher = UsersDispatcher([WorkerNode(worker) for worker in ids], [User])

    assert dealing_order(ids) == [node.id for node in dispatcher._worker_nodes]
