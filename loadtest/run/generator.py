"""One process's part of a run: it sends requests and adds up what came of them, as the conductor assigns it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gevent

from loadtest.options import Shape
from loadtest.shapes.arrivals import Share
from loadtest.shapes.curves import RateCurve, curve_of
from loadtest.statistics.health import HealthWatch
from loadtest.statistics.ledger import Ledger
from loadtest.workloads.planned import Workload

from .conversations import Conversation, Turns
from .messages import Assignment, Grant, NewShare, Report, Stage
from .open_loop import Arrivals, Failed
from .sending import Observer, OpenTransport, Sender
from .tickets import Tickets

_POLL_S: Final = 0.05
# How long a request that was cut may take to notice.
_SETTLE_S: Final = 2.0
# Requests of a user that are made up before the run.
_MOST_PREPARED: Final = 4


@dataclass
class Seat:
    """A user's place in a closed loop, and how far its conversation is."""

    place: int
    target: str
    conversation: Conversation
    answer: str | None = None


class Generator:
    """Sends its share of one run.

    `observe` is told each outcome; `want` asks the conductor for requests of a limited number; `failed` is told what
    went wrong outside of requests.
    """

    def __init__(
        self,
        first: Assignment,
        workload: Workload,
        *,
        received_at: float,
        open_transport: OpenTransport,
        observe: Observer,
        want: Callable[[int], None],
        failed: Failed,
    ) -> None:
        self.run, self.options = first.run, first.options
        self._workload = workload
        self._worker = first.worker
        self._share = Share(first.index, first.count)
        self._sla = first.sla
        self._started_at = received_at + first.starts_in_s
        self._ledger = Ledger(
            self.options, self._sla, started_at=self._started_at, warmup_requests=first.warmup_requests
        )
        self._stage_ledger: Ledger | None = None
        self._health = HealthWatch(warmup_s=first.starts_in_s + self.options.warmup_s)
        self._health.start()
        self._sender = Sender(self.options, open_transport, observe)
        self._tickets = Tickets(want)
        self._failed = failed
        self._places: set[int] = set()
        self._arrivals: Arrivals | None = None
        self._cut_at = math.inf
        self._begin(first.stage, received_at)

    def next_stage(self, stage: Stage, received_at: float) -> None:
        """What still runs of the stage before is cut."""
        if self._arrivals is not None:
            self._arrivals.stop()
        self._sender.cut()
        self._begin(stage, received_at)

    def change_share(self, change: NewShare) -> None:
        """Another share of the load, from a time on; users that are there stay with their targets."""
        self._share = Share(change.index, change.count)
        if self._arrivals is not None:
            self._arrivals.change_share(change.from_s, self._share)

    def grant(self, grant: Grant) -> None:
        """More requests of a limited number."""
        self._tickets.grant(grant.requests, last=grant.last)

    def take_seat(self) -> Seat:
        """A place for one user. Targets take turns; each has the same conversations."""
        place = next(number for number in range(len(self._places) + 1) if number not in self._places)
        self._places.add(place)
        targets = self.options.targets
        row, column = divmod(self._share.number_of(place), len(targets))
        return Seat(place, targets[column], Conversation(self._workload, f"{self.options.seed}/user/{row}"))

    def leave_seat(self, seat: Seat) -> None:
        """The place is free for another user."""
        self._places.discard(seat.place)

    def take_turn(self, seat: Seat) -> bool:
        """One request of a user in a closed loop. False when the run takes no more of them."""
        if time.time() < self._stage_started_at:
            seat.conversation.prepare(self._rounds)
        gevent.sleep(max(0.0, self._stage_started_at - time.time()))
        if self.options.shape is not Shape.USERS or self._over:
            return False
        if self.options.requests is not None and (not self._tickets.take(len(self._places)) or self._over):
            return False
        request, line = seat.conversation.next(seat.answer), self._sender.line(seat.target)
        line.prepare(request)
        seat.answer = self._sender.send(seat.target, line, request, time.time())
        return True

    def report(self) -> dict[str, Any]:
        """What came since the last report."""
        stage = self._stage_ledger
        return Report(
            run=self.run,
            stage=self._stage.number,
            begun=self._sender.begun,
            in_flight=self._sender.in_flight,
            sent=self._arrivals is not None and self._arrivals.sent,
            tickets=self._tickets.received,
            spare_tickets=self._tickets.stock,
            ledger=self._ledger.drain(),
            stage_ledger=stage.drain() if stage is not None else None,
            health=self._health.drain(),
        ).data()

    def finish(self, grace_s: float) -> None:
        """Send nothing more, wait for what runs, cut what then still does. A second call may shorten the wait."""
        self._cut_at = min(self._cut_at, time.monotonic() + grace_s)
        if self._arrivals is not None:
            self._arrivals.stop()
        while self._sender.in_flight and time.monotonic() < self._cut_at:
            gevent.sleep(_POLL_S)
        self._sender.cut()
        self._sender.settle(_SETTLE_S)
        self._sender.close()
        self._health.stop()

    @property
    def _rounds(self) -> int:
        """Requests of a user that are worth making up beforehand: those that are sure to be sent, within limits."""
        requests = self.options.requests
        return 1 if requests is None else min(-(-requests // self.options.users), _MOST_PREPARED)

    @property
    def _over(self) -> bool:
        seconds = self._stage.seconds
        return self._cut_at < math.inf or (seconds is not None and time.time() >= self._stage_started_at + seconds)

    def _begin(self, stage: Stage, received_at: float) -> None:
        self._stage = stage
        self._stage_started_at = received_at + stage.starts_in_s
        ledgers = [self._ledger]
        if stage.rate is not None:
            self._stage_ledger = Ledger(self.options, self._sla, started_at=self._stage_started_at)
            ledgers.append(self._stage_ledger)
        self._sender.ledgers = ledgers
        if self.options.shape is Shape.USERS:
            return
        seed = f"{self.options.seed}/stage/{stage.number}"
        self._arrivals = Arrivals(
            self._sender,
            {target: Turns(self._workload, f"{seed}/{self._worker}") for target in self.options.targets},
            curve=curve_of(self.options) if stage.rate is None else RateCurve.constant(stage.rate),
            seed=seed,
            share=self._share,
            started_at=self._stage_started_at,
            seconds=stage.seconds,
            requests=self.options.requests,
            failed=self._failed,
        )
