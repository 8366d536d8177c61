"""One run as the conductor sees it: who takes part, what they reported, when it is over."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import gevent

from loadtest.options import LoadOptions, Shape, SlaLimits
from loadtest.statistics.health import HealthWatch
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.records import Record
from loadtest.statistics.results import RunResult
from loadtest.statistics.timeline import Timeline

from . import messages
from .crew import Crew
from .messages import Assignment, Grant, NewShare, Report, Stage, Stop
from .searching import Searching
from .tickets import RequestLimit

# How long before it starts a distributed run is announced: messages and loading the workload take a moment.
_LEAD_S: Final = 1.0
# How long before a new share of the load holds it is announced.
_HAND_OVER_S: Final = 1.0
# How much longer than its running requests a worker may take to say that it is done.
_ANSWER_S: Final = 5.0
# How long a step's requests may take to end when the SLA does not say.
_STEP_GRACE_S: Final = 10.0
_POLL_S: Final = 0.05

logger = logging.getLogger("loadtest")


@dataclass
class _Member:
    """A process that takes part. `number` is its place among all that ever did; `granted` of a limited number."""

    number: int
    name: str
    report: Report | None = None
    granted: int = 0
    is_done: bool = False


class Run:
    """From the first assignment to the last report.

    Attributes:
        error: why the run cannot go on; empty as long as it can.
        partial: why its figures are not those that were asked for.
    """

    def __init__(self, options: LoadOptions, sla: SlaLimits | None, crew: Crew) -> None:
        self.options = options
        self.error = ""
        self.partial: list[str] = []
        self._sla = sla
        self._crew = crew
        self._id = uuid4().hex
        self._members: dict[str, _Member] = {}
        self._numbers = 0
        self._limit = None if options.requests is None else RequestLimit(options.requests)
        self._searching = Searching(options, sla) if options.shape is Shape.SEARCH and sla is not None else None
        self._health = HealthWatch()
        self._started_at = self._stage_started_at = time.time() + self._lead_s
        self._ended_at: float | None = None
        self._is_over = False
        self._ledger = Ledger(options, sla, started_at=self._started_at)
        self._stage_ledger = self._ledger
        self._stage = self._next_stage(0) or Stage()
        if self._searching is not None:
            self._stage_ledger = Ledger(options, sla, started_at=self._started_at)

    def start(self) -> None:
        """Assign everyone who is there."""
        self._take_in(self._crew.present())

    def look_around(self) -> None:
        """Notice who was lost and who came, and share the load out anew."""
        present = self._crew.present()
        lost = [member for member in self._members if member not in present]
        came = [member for member in present if member not in self._members]
        for member in lost:
            self._lose(self._members.pop(member))
        if came:
            self._take_in(present, already=tuple(self._members))
        elif lost and self._members:
            self._share_out(present, self._members)

    def hear(self, member: str, data: Mapping[str, Any]) -> None:
        """A report."""
        report = Report.model_validate(data)
        if report.run != self._id or member not in self._members:
            return
        self._members[member].report = report
        self._ledger.merge(report.ledger)
        self._health.merge(self._members[member].name, report.health)
        if report.stage_ledger is not None and report.stage == self._stage.number:
            self._stage_ledger.merge(report.stage_ledger)

    def hear_done(self, member: str, data: Mapping[str, Any]) -> None:
        """The last report."""
        self.hear(member, data)
        if member in self._members:
            self._members[member].is_done = True

    def grant(self, member: str, wanted: int) -> None:
        """Requests of a limited number, as many as there are."""
        if self._limit is None or member not in self._members:
            return
        granted = self._limit.take(wanted)
        self._members[member].granted += granted
        grant = Grant(run=self._id, requests=granted, last=self._limit.exhausted)
        self._crew.tell(member, messages.GRANT, grant.data())

    def fail(self, run: str, member: str, message: str) -> None:
        """A process could not take part, or its code failed."""
        if run == self._id and member in self._members:
            failed = self._members[member]
            self.error = f'worker "{failed.name}": {message}'
            # Without a report so far it never began, and has none to hand over.
            failed.is_done = failed.report is None

    def advance(self) -> bool:
        """Whether the run goes on."""
        if self.error or not self._members:
            return False
        if self._searching is not None:
            self._search_on(self._searching)
        elif self._reached_its_end():
            self._is_over = True
        return not self._is_over

    def stop(self, grace_s: float) -> None:
        """Nothing more is sent; returns when all have handed over what they had, or were given up.

        An interruption while it waits cuts what runs.
        """
        if where := self._where_it_stopped():
            self.partial.append(where)
        try:
            self._tell_all(Stop(run=self._id, grace_s=grace_s))
            self._wait_until_done(grace_s + _ANSWER_S)
        except KeyboardInterrupt:
            self.cut()
            self._wait_until_done(_ANSWER_S)
        for member in self._members.values():
            if not member.is_done:
                self.partial.append(f'worker "{member.name}" did not hand over its last figures')
        self._ended_at = time.time()

    def cut(self) -> None:
        """Do not wait for what still runs."""
        self._tell_all(Stop(run=self._id, grace_s=0.0))

    def result(self, *, with_histograms: bool = True) -> RunResult:
        """The figures so far; of a search those of the stage that is on."""
        ledger = self._stage_ledger
        result = ledger.result(
            seconds=(self._ended_at or time.time()) - self._stage_started_at,
            client=self._health.health(ledger.send_lags()),
            partial=self.partial,
            with_histograms=with_histograms,
        )
        return result if self._searching is None else result.model_copy(update={"search": self._searching.found()})

    def timeline(self, since: int = 0) -> Timeline:
        """Second by second, of a search through all of its stages."""
        return self._ledger.timeline(since, seconds=self.elapsed_s)

    def records(self) -> Sequence[Record]:
        """One of each counted request."""
        return self._stage_ledger.records()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start, the warm-up included; 0 before it."""
        return max(0.0, (self._ended_at or time.time()) - self._started_at)

    @property
    def _lead_s(self) -> float:
        return _LEAD_S if self._crew.is_remote else 0.0

    @property
    def _end_s(self) -> float | None:
        duration = self.options.duration_s
        return None if duration is None else self.options.warmup_s + duration

    def _next_stage(self, number: int) -> Stage | None:
        if self._searching is not None:
            return self._searching.stage(number)
        return Stage(number=number, seconds=self._end_s)

    def _take_in(self, present: Sequence[str], already: Sequence[str] = ()) -> None:
        now = time.time()
        for index, member in enumerate(present):
            if member in already:
                continue
            self._members[member] = _Member(self._numbers, self._name(member, self._numbers))
            self._numbers += 1
            assignment = self._assignment(member, index, len(present), now)
            if already:
                # The warm-up is over, or others are at it.
                assignment = assignment.model_copy(update={"warmup_requests": 0})
            self._crew.tell(member, messages.ASSIGNMENT, assignment.data())
        if already:
            self._share_out(present, already)

    def _assignment(self, member: str, index: int, count: int, now: float) -> Assignment:
        quotient, remainder = divmod(self.options.warmup_requests, count)
        return Assignment(
            run=self._id,
            options=self.options,
            sla=self._sla,
            worker=self._members[member].number,
            index=index,
            count=count,
            warmup_requests=quotient + (index < remainder),
            starts_in_s=self._started_at - now,
            stage=self._stage.model_copy(update={"starts_in_s": self._stage_started_at - now}),
        )

    def _share_out(self, present: Sequence[str], members: Iterable[str]) -> None:
        from_s = time.time() - self._stage_started_at + _HAND_OVER_S
        for member in members:
            share = NewShare(run=self._id, from_s=from_s, index=present.index(member), count=len(present))
            self._crew.tell(member, messages.SHARE, share.data())

    def _lose(self, member: _Member) -> None:
        if member.is_done:
            return
        text = f'worker "{member.name}" was lost after {self.elapsed_s:.0f} s: what it had not reported is missing'
        logger.error(text)
        self.partial.append(text)

    def _name(self, member: str, number: int) -> str:
        return f"{number + 1} on {member.rpartition('_')[0]}" if self._crew.is_remote else "this process"

    def _reached_its_end(self) -> bool:
        if self._end_s is not None and self.elapsed_s >= self._end_s:
            return True
        reports = [(member, member.report) for member in self._members.values()]
        if self.options.shape is not Shape.USERS:
            return all(report is not None and report.sent and not report.in_flight for _, report in reports)
        return (
            self._limit is not None
            and self._limit.exhausted
            and all(
                not member.granted
                or (
                    report is not None
                    and report.tickets == member.granted
                    and not report.spare_tickets
                    and not report.in_flight
                )
                for member, report in reports
            )
        )

    def _search_on(self, searching: Searching) -> None:
        elapsed = time.time() - self._stage_started_at
        seconds = self._stage.seconds
        if seconds is None or elapsed < seconds:
            return
        if searching.is_confirming:
            self._is_over = True
            return
        grace = (self._sla.p99_e2e_s if self._sla is not None else None) or _STEP_GRACE_S
        if not self._is_idle() and elapsed < seconds + min(grace, self.options.deadline_s):
            return
        step = searching.judge(self.result(with_histograms=False))
        verdict = "inside the SLA" if step.inside else f"outside: {'; '.join(step.reasons)}"
        logger.info(f"{step.rate:.4g} requests/s: {verdict}")
        stage = searching.stage(self._stage.number + 1)
        if stage is None:
            self._is_over = True
            return
        self._begin_stage(stage)

    def _begin_stage(self, stage: Stage) -> None:
        now = time.time()
        self._stage, self._stage_started_at = stage, now + self._lead_s
        self._stage_ledger = Ledger(self.options, self._sla, started_at=self._stage_started_at)
        present = self._crew.present()
        for member in self._members:
            if member in present:
                assignment = self._assignment(member, present.index(member), len(present), now)
                self._crew.tell(member, messages.ASSIGNMENT, assignment.data())

    def _is_idle(self) -> bool:
        return all(
            report is not None and report.stage == self._stage.number and report.sent and not report.in_flight
            for report in (member.report for member in self._members.values())
        )

    def _awaited(self) -> list[str]:
        present = self._crew.present()
        return [member for member in self._members if member in present]

    def _wait_until_done(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while any(not self._members[member].is_done for member in self._awaited()) and time.monotonic() < until:
            gevent.sleep(_POLL_S)

    def _tell_all(self, stop: Stop) -> None:
        for member in self._awaited():
            self._crew.tell(member, messages.STOP, stop.data())

    def _where_it_stopped(self) -> str:
        """Empty when it had come to its end, or had none."""
        if self.error:
            return self.error
        if self._is_over:
            return ""
        if self._searching is not None:
            return f"stopped before the search was over, after {self.elapsed_s:.0f} s"
        if self._end_s is not None:
            return f"stopped after {self.elapsed_s:.0f} s of {self._end_s:g} s"
        if self.options.requests is None:
            return ""
        begun = sum(member.report.begun for member in self._members.values() if member.report is not None)
        return f"stopped after {begun} of {self.options.requests} requests"
