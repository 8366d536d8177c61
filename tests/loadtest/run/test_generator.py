"""One process's part of a run, against a server that is not there."""

from __future__ import annotations

import time
from typing import Any

import gevent
import pytest

from loadtest.options import LoadOptions
from loadtest.run.generator import Generator
from loadtest.run.messages import Assignment, Grant, Report, Stage
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.results import ClientHealth, RunResult
from loadtest.users.answer import Answer
from tests.loadtest.run.fakes import FakeServer, FakeWorkload


class Case:
    """A generator, its server, and what it said."""

    def __init__(self, server: FakeServer | None = None, *, index: int = 0, count: int = 1, **options: Any) -> None:
        self.server = server or FakeServer(seconds=0.005)
        self.options = LoadOptions.model_validate({"host": "http://h:1", "targets": ("a", "b"), **options})
        self.observed: list[Answer] = []
        self.wanted: list[int] = []
        self.failed: list[BaseException] = []
        self.started_at = time.time()
        self.reports = Ledger(self.options, None, started_at=self.started_at)
        seconds = None if self.options.duration_s is None else self.options.warmup_s + self.options.duration_s
        self.generator = Generator(
            Assignment(
                run="run",
                options=self.options,
                sla=None,
                worker=index,
                index=index,
                count=count,
                warmup_requests=self.options.warmup_requests,
                starts_in_s=0.0,
                stage=Stage(seconds=seconds),
            ),
            FakeWorkload(),
            received_at=self.started_at,
            open_transport=self.server.open,
            observe=self.observed.append,
            want=self.wanted.append,
            failed=self.failed.append,
        )

    def user(self, turns: int = 1_000_000) -> gevent.Greenlet:
        """Somebody in a closed loop."""

        def ask() -> None:
            seat = self.generator.take_seat()
            try:
                for _ in range(turns):
                    if not self.generator.take_turn(seat):
                        return
            finally:
                self.generator.leave_seat(seat)

        return gevent.spawn(ask)

    def result(self) -> RunResult:
        report = Report.model_validate(self.generator.report())
        self.reports.merge(report.ledger)
        return self.reports.result(
            seconds=time.time() - self.started_at, client=ClientHealth(workers=1, cpu_percent=None)
        )


def run(*users: gevent.Greenlet) -> None:
    gevent.joinall(users, raise_error=True, timeout=120)
    assert all(user.ready() for user in users)


def test_users_take_turns_over_the_targets() -> None:
    case = Case()
    run(*(case.user(turns=3) for _ in range(4)))

    assert sorted(sent.target for sent in case.server.sent) == ["a"] * 6 + ["b"] * 6


def test_the_same_conversations_are_held_with_each_target() -> None:
    case = Case()
    run(*(case.user(turns=3) for _ in range(4)))
    asked = {target: sorted(sent.prompt for sent in case.server.sent if sent.target == target) for target in "ab"}

    assert asked["a"] == asked["b"]
    assert len({prompt.split("/")[0] for prompt in asked["a"]}) == 2


def test_users_of_several_workers_are_dealt_out_evenly() -> None:
    targets = []
    for index in range(2):
        case = Case(index=index, count=2)
        run(case.user(turns=1))
        targets += [sent.target for sent in case.server.sent]

    assert targets == ["a", "b"]


def test_a_seat_that_was_left_is_taken_again() -> None:
    generator = Case().generator
    first, second = generator.take_seat(), generator.take_seat()
    generator.leave_seat(first)

    assert generator.take_seat().place == first.place == 0
    assert second.place == 1


@pytest.mark.slow
def test_a_run_ends_when_its_time_is_over() -> None:
    case = Case(duration_s=0.2, warmup_s=0.1)
    run(*(case.user() for _ in range(2)))

    assert time.time() - case.started_at >= 0.3
    assert all(sent.due_at < case.started_at + 0.31 for sent in case.server.sent)


@pytest.mark.slow
def test_what_is_due_in_the_warm_up_is_neither_counted_nor_shown_to_locust() -> None:
    case = Case(duration_s=0.2, warmup_s=0.1)
    run(case.user())
    early = [sent for sent in case.server.sent if sent.due_at < case.started_at + 0.1]
    result = case.result()

    assert early
    assert result.warmup_requests == len(early)
    assert sum(target.requests for target in result.targets) == len(case.observed) == len(case.server.sent) - len(early)


def test_of_a_limited_number_none_is_sent_before_it_is_granted() -> None:
    case = Case(requests=5)
    user = case.user()
    gevent.sleep(0.02)
    assert case.server.sent == []
    assert case.wanted

    case.generator.grant(Grant(run="run", requests=5, last=True))
    run(user)
    assert len(case.server.sent) == 5


def test_what_still_runs_after_the_grace_is_cut_and_ends_on_the_server() -> None:
    server = FakeServer(seconds=60)
    case = Case(server)
    users = [case.user() for _ in range(3)]
    gevent.sleep(0.02)
    case.generator.finish(grace_s=0.05)
    run(*users)
    result = case.result()

    assert server.closed == 3
    assert [(target.requests, target.cut) for target in result.targets] == [(0, 2), (0, 1)]
    # Four each had come.
    assert [(target.cut_output_tokens, target.cut_uncounted) for target in result.targets] == [(8, 0), (4, 0)]
    assert case.observed == []


def test_what_ends_within_the_grace_counts() -> None:
    case = Case(FakeServer(seconds=0.1))
    users = [case.user() for _ in range(2)]
    gevent.sleep(0.02)
    case.generator.finish(grace_s=10.0)
    run(*users)
    result = case.result()

    assert [(target.requests, target.cut) for target in result.targets] == [(1, 0), (1, 0)]


def test_a_second_call_shortens_the_grace() -> None:
    case = Case(FakeServer(seconds=60))
    user = case.user()
    gevent.sleep(0.02)
    patient = gevent.spawn(case.generator.finish, 60.0)
    gevent.sleep(0.02)
    case.generator.finish(grace_s=0.0)

    run(patient, user)


def test_a_user_that_is_taken_away_does_not_leave_its_request_on_the_server() -> None:
    server = FakeServer(seconds=60)
    case = Case(server)
    user = case.user()
    gevent.sleep(0.02)
    user.kill()

    assert server.closed == 1
    assert [target.cut for target in case.result().targets] == [1, 0]


@pytest.mark.parametrize("fails", [True, False])
def test_an_answer_goes_into_the_conversation_unless_it_failed(*, fails: bool) -> None:
    case = Case(FakeServer(fail=lambda _: fails), targets=("a",))
    run(case.user(turns=2))

    result = case.result()
    assert result.targets[0].failures == ({"server": 2} if fails else {})


def a_stage(case: Case, number: int, rate: float) -> None:
    case.generator.next_stage(Stage(number=number, rate=rate, seconds=60), time.time())


@pytest.mark.slow
def test_the_next_stage_cuts_the_one_before_and_counts_by_itself() -> None:
    server = FakeServer(seconds=60)
    case = Case(server, shape="rate", rate=100)
    gevent.sleep(0.1)
    before = len(server.sent)
    server.seconds = 0.0
    a_stage(case, 1, 100.0)
    gevent.sleep(0.2)
    report = Report.model_validate(case.generator.report())
    stage = Ledger(case.options, None, started_at=time.time())
    assert report.stage_ledger is not None
    stage.merge(report.stage_ledger)
    result = stage.result(seconds=0.2, client=ClientHealth(workers=1, cpu_percent=None))

    # A busy machine may send one more while the stage is cut, and be asked for its report while one is on its way.
    assert server.closed >= before > 0
    assert report.stage == 1
    assert 0 <= len(server.sent) - server.closed - sum(target.requests for target in result.targets) <= 1
    case.generator.finish(0.0)
