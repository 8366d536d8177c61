"""The open loop: requests are sent when they are due, however many are running already."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import gevent
from gevent import Greenlet
from gevent.pool import Pool

from loadtest.shapes.arrivals import Share, arrivals
from loadtest.shapes.curves import RateCurve

from .conversations import Turns
from .sending import Sender

MOST_IN_FLIGHT: Final = 10_000
"""Requests that one process runs at once. What is due beyond that waits here, and its latency counts from when it was
due: the send lag then says that the client, too, is full."""


Failed = Callable[[BaseException], None]


class Arrivals:
    """One process's requests of one stage, sent by a greenlet of its own."""

    def __init__(
        self,
        sender: Sender,
        turns: dict[str, Turns],
        *,
        curve: RateCurve,
        seed: str,
        share: Share,
        started_at: float,
        seconds: float | None,
        requests: int | None,
        failed: Failed,
    ) -> None:
        self._is_at_end = False
        self._sender = sender
        self._turns = turns
        self._curve = curve
        self._seed = seed
        self._shares = [(0.0, share)]
        self._started_at = started_at
        self._seconds = seconds
        self._requests = requests
        self._failed = failed
        self._running = Pool(MOST_IN_FLIGHT)
        self._next = 0
        self._waiting: dict[int, Greenlet] = {}
        self._stopped = False
        self._greenlet = gevent.spawn(self._send_all)
        self._greenlet.link_exception(lambda greenlet: self._failed(greenlet.exception))

    @property
    def sent(self) -> bool:
        """All requests of the stage have been sent; where it has no end, they never are."""
        return self._is_at_end and not self._waiting

    def change_share(self, from_s: float, share: Share) -> None:
        """Take another share of what is due from `from_s` on."""
        self._shares.append((from_s, share))

    def stop(self) -> None:
        """Send nothing more. What is due already, and was not sent, counts as cut."""
        if self._stopped:
            return
        self._stopped = True
        self._greenlet.kill()
        gevent.killall(list(self._waiting.values()))
        elapsed = time.time() - self._started_at
        unsent = min(self._waiting, default=self._next)
        for number, seconds, target in self._due(from_number=unsent):
            if seconds > elapsed:
                break
            if number in self._waiting or (number >= self._next and self._is_mine(number, seconds)):
                self._sender.never_sent(target, self._started_at + seconds)

    def _send_all(self) -> None:
        for number, seconds, target in self._due(from_number=0):
            is_begun = self._is_mine(number, seconds) and self._begin_turn(number, seconds, target)
            # Waited for one by one, whoever sends them: until then the shares may change.
            gevent.sleep(max(0.0, self._started_at + seconds - time.time()))
            if not is_begun and self._is_mine(number, seconds):
                self._begin_turn(number, seconds, target)
            self._next = number + 1
        self._is_at_end = True

    def _begin_turn(self, number: int, seconds: float, target: str) -> bool:
        """Ahead of its time, so that all is ready when it comes."""
        self._running.wait_available()
        turn = self._running.spawn(self._take_turn, number, seconds, target)
        turn.link_exception(lambda greenlet: self._failed(greenlet.exception))
        self._waiting[number] = turn
        self._next = number + 1
        return True

    def _due(self, from_number: int) -> Iterator[tuple[int, float, str]]:
        """Number, seconds after the start and target of all requests of the stage, of whichever process."""
        targets = tuple(self._turns)
        random = Random(self._seed)  # noqa: S311  # times, not secrets
        for number, seconds in enumerate(arrivals(self._curve, random)):
            if self._requests is not None and number >= self._requests:
                return
            if self._seconds is not None and seconds >= self._seconds:
                return
            if number >= from_number:
                yield number, seconds, targets[number % len(targets)]

    def _is_mine(self, number: int, seconds: float) -> bool:
        place = bisect.bisect_right(self._shares, seconds, key=lambda change: change[0]) - 1
        return self._shares[place][1].takes(number, len(self._turns))

    def _take_turn(self, number: int, seconds: float, target: str) -> None:
        turns, line, due_at = self._turns[target], self._sender.line(target), self._started_at + seconds
        session, request = turns.next()
        line.prepare(request)
        gevent.sleep(max(0.0, due_at - time.time()))
        del self._waiting[number]
        if not self._is_mine(number, seconds):
            turns.give_back((session, request))
            self._sender.leave(target, line)
            return
        answer = self._sender.send(target, line, request, due_at)
        if answer is not None:
            turns.answered(session, answer)
