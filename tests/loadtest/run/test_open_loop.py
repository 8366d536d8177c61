"""Arrivals are not slowed, not lost, and never counted from a later time than they were due."""

from __future__ import annotations

import time
from itertools import takewhile
from random import Random

import gevent
import pytest

from loadtest.options import LoadOptions, Shape
from loadtest.run import open_loop
from loadtest.run.conversations import Turns
from loadtest.run.open_loop import Arrivals
from loadtest.run.sending import Sender
from loadtest.shapes.arrivals import Share, arrivals
from loadtest.shapes.curves import RateCurve
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.results import ClientHealth
from tests.loadtest.run.fakes import FakeServer, FakeWorkload

HEALTH = ClientHealth(workers=1, cpu_percent=None)
RATE = 200.0
SECONDS = 0.5
SEED = "seed"


class Loop:
    """An open loop against a fake server."""

    def __init__(
        self, server: FakeServer, *, targets: tuple[str, ...] = ("a",), share: Share | None = None, turns: int = 1
    ) -> None:
        self.options = LoadOptions(host="http://h:1", targets=targets, shape=Shape.RATE, rate=RATE)
        self.started_at = time.time()
        self.ledger = Ledger(self.options, None, started_at=self.started_at)
        self.sender = Sender(self.options, server.open, lambda _: None)
        self.sender.ledgers = [self.ledger]
        self.errors: list[BaseException] = []
        self.workload = FakeWorkload(turns=turns)
        self.arrivals = Arrivals(
            self.sender,
            {target: Turns(self.workload, SEED) for target in targets},
            curve=RateCurve.constant(RATE),
            seed=SEED,
            share=share or Share(),
            started_at=self.started_at,
            seconds=SECONDS,
            requests=None,
            failed=self.errors.append,
        )

    def run(self) -> None:
        with gevent.Timeout(20):
            while not self.arrivals.sent:
                gevent.sleep(0.01)

    def times(self, server: FakeServer) -> list[float]:
        """When what was sent was due."""
        return sorted(sent.due_at - self.started_at for sent in server.sent)

    def cut(self) -> int:
        result = self.ledger.result(seconds=SECONDS, client=HEALTH)
        return sum(target.cut for target in result.targets)


def due() -> list[float]:
    times = arrivals(RateCurve.constant(RATE), Random(SEED))
    return list(takewhile(lambda at: at < SECONDS, times))


@pytest.mark.slow
def test_a_server_that_answers_nothing_is_sent_everything_when_it_is_due() -> None:
    server = FakeServer(seconds=60)
    loop = Loop(server)
    loop.run()

    assert loop.times(server) == pytest.approx(due(), abs=1e-5)
    assert all(sent.at >= sent.due_at for sent in server.sent)
    assert loop.sender.in_flight == len(due())
    assert loop.errors == []
    loop.sender.cut()


@pytest.mark.slow
def test_targets_take_turns_and_get_the_same_prompts() -> None:
    server = FakeServer()
    loop = Loop(server, targets=("a", "b"))
    loop.run()
    prompts = {target: [sent.prompt for sent in server.sent if sent.target == target] for target in "ab"}

    assert [sent.target for sent in server.sent[:4]] == ["a", "b", "a", "b"]
    shared = min(len(prompts["a"]), len(prompts["b"]))
    assert prompts["a"][:shared] == prompts["b"][:shared]


@pytest.mark.slow
def test_two_processes_send_together_what_one_would() -> None:
    servers = [FakeServer(), FakeServer()]
    loops = [Loop(server, share=Share(index, 2)) for index, server in enumerate(servers)]
    for loop in loops:
        loop.run()
    found = [at for loop, server in zip(loops, servers, strict=True) for at in loop.times(server)]

    assert sorted(found) == pytest.approx(due(), abs=1e-5)
    assert all(server.sent for server in servers)


@pytest.mark.slow
def test_who_takes_over_a_share_takes_what_is_due_from_then_on() -> None:
    server = FakeServer()
    loop = Loop(server, share=Share(0, 2))
    loop.arrivals.change_share(SECONDS / 2, Share(0, 1))
    loop.run()

    expected = [at for number, at in enumerate(due()) if at >= SECONDS / 2 or number % 2 == 0]
    assert loop.times(server) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_beyond_its_bound_it_sends_late_and_counts_from_when_it_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "MOST_IN_FLIGHT", 2)
    server = FakeServer(seconds=0.02)
    loop = Loop(server)
    loop.run()

    assert loop.times(server) == pytest.approx(due(), abs=1e-5)
    # 2 in 20 ms are half of what is due: the last ones go out late by about half of the time.
    assert max(sent.at - sent.due_at for sent in server.sent) > SECONDS / 4
    assert loop.sender.in_flight <= 2


@pytest.mark.slow
def test_what_was_due_and_not_sent_when_it_stops_counts_as_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_loop, "MOST_IN_FLIGHT", 3)
    server = FakeServer(seconds=60)
    loop = Loop(server)
    gevent.sleep(SECONDS / 2)
    loop.arrivals.stop()
    until = time.time() - loop.started_at
    loop.sender.cut()

    assert len(server.sent) == 3
    assert loop.cut() == pytest.approx(len([at for at in due() if at <= until]), abs=1)
    gevent.sleep(SECONDS)
    assert len(server.sent) == 3


@pytest.mark.slow
def test_sessions_go_on_when_their_answer_is_there() -> None:
    server = FakeServer()
    loop = Loop(server, turns=2)
    loop.run()
    answered = [session for session in loop.workload.opened if len(session.answers) > 1]

    assert answered
    assert all(str(session.answers[1]).startswith("answer to ") for session in answered)


def test_an_error_of_ours_is_told() -> None:
    class Broken(FakeServer):
        def open(self, options: LoadOptions, target: str) -> object:  # type: ignore[override]
            raise ValueError("no line")

    loop = Loop(Broken())
    with gevent.Timeout(10):
        while not loop.errors:
            gevent.sleep(0.01)
    loop.arrivals.stop()

    assert str(loop.errors[0]) == "no line"
