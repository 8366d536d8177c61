"""Sends requests over transports, one each at a time, and adds up what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import gevent
from gevent import GreenletExit

from loadtest.options import LoadOptions, Protocol
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import Outcome
from loadtest.users.answer import Answer
from loadtest.users.transport import Transport
from loadtest.workloads.planned import PlannedRequest

_POLL_S: Final = 0.01

OpenTransport = Callable[[LoadOptions, str], Transport]
Observer = Callable[[Answer], None]


class Sender:
    """Any number of greenlets may send at the same time; each request has a transport of its own while it runs.

    Attributes:
        ledgers: where requests that begin from now on are counted, the run's first.
        begun: how many requests were sent.
    """

    def __init__(self, options: LoadOptions, open_transport: OpenTransport, observe: Observer) -> None:
        self.ledgers: Sequence[Ledger] = ()
        self.begun = 0
        self._options = options
        self._open_transport = open_transport
        self._observe = observe
        self._idle: dict[str, list[Transport]] = {target: [] for target in options.targets}
        self._running: set[Transport] = set()
        self._unsettled = 0

    @property
    def in_flight(self) -> int:
        """Requests that were sent and are neither over nor cut."""
        return len(self._running)

    def line(self, target: str) -> Transport:
        """A transport that nothing runs on, to be used by `send` or given back with `leave`."""
        idle = self._idle[target]
        return idle.pop() if idle else self._open_transport(self._options, target)

    def leave(self, target: str, line: Transport) -> None:
        """The line is free for another request."""
        self._idle[target].append(line)

    def send(self, target: str, line: Transport, request: PlannedRequest, due_at: float) -> str | None:
        """Send a request and wait for its answer. Returns the text of a whole answer, None for a failed or cut one.

        The ledgers know what was cut as begun and not ended, and the tokens that it had received.
        """
        ledgers = self.ledgers
        self.begun += 1
        for ledger in ledgers:
            ledger.begin(target, due_at)
        self._running.add(line)
        self._unsettled += 1
        try:
            answer = line.send(request, due_at)
        except GreenletExit:
            # Locust takes a user away: its request ends here, and must not go on in the server.
            self._running.discard(line)
            line.close()
            raise
        finally:
            self._unsettled -= 1
        if line not in self._running:
            tokens = self._tokens_of_cut(answer.outcome)
            for ledger in ledgers:
                ledger.cut(target, due_at, tokens)
            return None
        self._running.discard(line)
        self.leave(target, line)
        counts = [ledger.add(answer.outcome) for ledger in ledgers]
        if counts[0]:
            self._observe(answer)
        return answer.text if answer.outcome.failure is None else None

    def never_sent(self, target: str, due_at: float) -> None:
        """A request was due, and was not sent before the run ended: it counts as cut."""
        for ledger in self.ledgers:
            ledger.begin(target, due_at)
            ledger.cut(target, due_at, 0)

    def cut(self) -> None:
        """End what runs; it counts as cut."""
        cut, self._running = self._running, set()
        for line in cut:
            line.close()

    def settle(self, seconds: float) -> None:
        """Wait until what was cut has said how many tokens it had received; not longer than that."""
        until = time.monotonic() + seconds
        while self._unsettled > len(self._running) and time.monotonic() < until:
            gevent.sleep(_POLL_S)

    def _tokens_of_cut(self, outcome: Outcome) -> int | None:
        """What had come by the server's count; None where it had not counted."""
        if self._options.protocol is Protocol.GENERATE:
            # The answer comes in one piece, and the server has generated some of it.
            return None
        return outcome.output_tokens if outcome.output_tokens or not outcome.responses else None

    def close(self) -> None:
        """Close the connections that nothing runs on."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()
