"""A workload, transports and a crew without a server, a network or Locust."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import gevent.event

from loadtest.options import LoadOptions
from loadtest.statistics.outcome import ErrorKind, Failure, Outcome
from loadtest.users.answer import Answer
from loadtest.workloads.planned import PlannedRequest, Session


@dataclass
class Turns:
    """A session whose turns have these prompts."""

    prompts: list[str]
    answers: list[str | None] = field(default_factory=list)

    def next(self, answer: str | None) -> PlannedRequest | None:
        self.answers.append(answer)
        return PlannedRequest(max_tokens=4, prompt=self.prompts.pop(0)) if self.prompts else None


@dataclass
class FakeWorkload:
    """Sessions "0", "1", ... of so many turns; `opened` has them all."""

    turns: int = 1
    name: str = "fake"
    opened: list[Turns] = field(default_factory=list)

    def sessions(self, random: Random) -> Iterator[Session]:
        first = random.randrange(1_000_000)
        number = 0
        while True:
            session = Turns([f"{first}/{number}/{turn}" for turn in range(self.turns)])
            self.opened.append(session)
            yield session
            number += 1


@dataclass(frozen=True)
class Sent:
    """A request as a transport got it."""

    target: str
    prompt: str
    due_at: float
    at: float


@dataclass
class FakeServer:
    """Answers each request after `seconds`, or as it is closed; `fail` says which ones fail."""

    seconds: float = 0.0
    fail: Callable[[Sent], bool] = lambda _: False
    sent: list[Sent] = field(default_factory=list)
    closed: int = 0

    def open(self, options: LoadOptions, target: str) -> FakeTransport:
        return FakeTransport(self, target)


class FakeTransport:
    def __init__(self, server: FakeServer, target: str) -> None:
        self._server = server
        self._target = target
        self._ended = gevent.event.Event()

    def prepare(self, request: PlannedRequest) -> None:
        """Nothing to do."""

    def send(self, request: PlannedRequest, due_at: float) -> Answer:
        sent = Sent(self._target, request.prompt or "", due_at, time.time())
        self._server.sent.append(sent)
        failure = Failure(ErrorKind.SERVER, "broken") if self._server.fail(sent) else None
        if self._ended.wait(self._server.seconds):
            failure = Failure(ErrorKind.CANCELLED, "closed")
        return Answer(outcome(self._target, due_at, sent.at - due_at, failure), f"answer to {sent.prompt}")

    def close(self) -> None:
        self._server.closed += 1
        self._ended.set()


def outcome(target: str, due_at: float, send_lag_s: float = 0.0, failure: Failure | None = None) -> Outcome:
    """Of a request that ends now."""
    return Outcome(
        target=target,
        served_by=f"{target}:1",
        due_at=due_at,
        send_lag_s=max(0.0, send_lag_s),
        ttft_s=max(0.0, time.time() - due_at),
        e2e_s=max(0.0, time.time() - due_at),
        tpot_s=None,
        output_tokens=4,
        failure=failure,
    )


@dataclass
class FakeCrew:
    """Workers that are told things and do nothing; `told` has what they were told."""

    members: list[str]
    is_remote: bool = True
    told: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    on_message: Callable[[str, str, Mapping[str, Any]], None] = lambda *_: None

    def present(self) -> list[str]:
        return list(self.members)

    def tell(self, member: str, message: str, data: dict[str, Any]) -> None:
        self.told.append((member, message, data))
        self.on_message(member, message, data)

    def last_told(self, member: str, message: str) -> Mapping[str, Any]:
        return next(data for to, kind, data in reversed(self.told) if (to, kind) == (member, message))
