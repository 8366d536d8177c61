"""A run as the conductor sees it, with workers that only say what a test has them say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from loadtest.options import LoadOptions, SlaLimits
from loadtest.run import messages, running
from loadtest.run.messages import Assignment, Grant, NewShare, Report, Stop
from loadtest.run.running import Run
from loadtest.statistics.health import HealthWatch
from loadtest.statistics.ledger import Ledger
from tests.loadtest.run.fakes import FakeCrew, outcome

TWO = ["host_1", "host_2"]


def options(**more: Any) -> LoadOptions:
    return LoadOptions.model_validate({"host": "http://h:1", "targets": ("a",), **more})


def started(crew: FakeCrew, sla: SlaLimits | None = None, **more: Any) -> Run:
    run = Run(options(**more), sla, crew)  # type: ignore[arg-type]
    run.start()
    return run


def assignment(crew: FakeCrew, member: str) -> Assignment:
    return Assignment.model_validate(crew.last_told(member, messages.ASSIGNMENT))


def report(crew: FakeCrew, member: str, requests: int = 0, **more: Any) -> dict[str, Any]:
    """What the member says of so many requests that it has made, half a second long each."""
    told = assignment(crew, member)
    ledgers = [Ledger(told.options, told.sla, started_at=time.time() - 10, warmup_requests=0) for _ in range(2)]
    for ledger in ledgers:
        for _ in range(requests):
            ledger.begin("a")
            ledger.add(outcome("a", time.time() - 0.5))
    fields: dict[str, Any] = {
        "run": told.run,
        "stage": told.stage.number,
        "begun": requests,
        "in_flight": 0,
        "sent": False,
        "tickets": 0,
        "spare_tickets": 0,
        "ledger": ledgers[0].drain(),
        "stage_ledger": ledgers[1].drain() if told.stage.rate is not None else None,
        "health": HealthWatch().drain(),
    }
    return Report.model_validate({**fields, **more}).data()


def test_everyone_is_assigned_a_share_of_the_same_run() -> None:
    crew = FakeCrew(TWO)
    started(crew, warmup_requests=5, duration_s=60, warmup_s=3)
    told = [assignment(crew, member) for member in TWO]

    assert told[0].run == told[1].run
    assert [(one.worker, one.index, one.count, one.warmup_requests) for one in told] == [(0, 0, 2, 3), (1, 1, 2, 2)]
    assert all(one.stage.seconds == 63 and 0 < one.starts_in_s <= 1 for one in told)


def test_reports_are_added_up_and_those_of_another_run_are_not() -> None:
    crew = FakeCrew(TWO)
    run = started(crew)
    run.hear(TWO[0], report(crew, TWO[0], 3))
    run.hear(TWO[1], report(crew, TWO[1], 4))
    run.hear(TWO[1], report(crew, TWO[1], 8, run="another"))
    run.hear("stranger_1", report(crew, TWO[1], 8))

    assert [target.requests for target in run.result().targets] == [7]
    assert run.result().client.workers == 2


def test_a_run_of_so_many_seconds_is_over_then() -> None:
    crew = FakeCrew(["host_1"], is_remote=False)
    run = started(crew, duration_s=0.05, warmup_s=0.05)

    assert run.advance()
    time.sleep(0.11)
    assert not run.advance()


def test_a_limited_run_is_over_when_all_that_was_granted_has_ended() -> None:
    crew = FakeCrew(TWO)
    run = started(crew, requests=10)
    run.grant(TWO[0], 8)
    run.grant(TWO[0], 8)
    grants = [Grant.model_validate(data) for _, kind, data in crew.told if kind == messages.GRANT]
    assert [(grant.requests, grant.last) for grant in grants] == [(8, False), (2, True)]

    run.hear(TWO[0], report(crew, TWO[0], 7, tickets=8))
    assert run.advance(), "two granted ones are still under way"
    run.hear(TWO[0], report(crew, TWO[0], 2, tickets=10, spare_tickets=1))
    assert run.advance(), "one is not taken"
    run.hear(TWO[0], report(crew, TWO[0], 1, tickets=10, in_flight=1))
    assert run.advance(), "one still runs"
    run.hear(TWO[0], report(crew, TWO[0], 0, tickets=10))
    assert not run.advance()


def test_an_open_loop_is_over_when_all_have_sent_all_and_nothing_runs() -> None:
    crew = FakeCrew(TWO)
    run = started(crew, shape="rate", rate=5, requests=10)
    run.hear(TWO[0], report(crew, TWO[0], sent=True))
    assert run.advance()
    run.hear(TWO[1], report(crew, TWO[1], sent=True, in_flight=1))
    assert run.advance()
    run.hear(TWO[1], report(crew, TWO[1], sent=True))
    assert not run.advance()


def test_a_lost_worker_is_said_and_its_share_goes_to_the_others() -> None:
    crew = FakeCrew(list(TWO))
    run = started(crew, duration_s=60)
    crew.members.remove(TWO[0])
    run.look_around()

    assert run.partial == ['worker "1 on host" was lost after 0 s: what it had not reported is missing']
    share = NewShare.model_validate(crew.last_told(TWO[1], messages.SHARE))
    assert (share.index, share.count) == (0, 1)
    assert run.advance()


def test_without_its_last_worker_a_run_does_not_go_on() -> None:
    crew = FakeCrew(["host_1"])
    run = started(crew, duration_s=60)
    crew.members.clear()
    run.look_around()

    assert not run.advance()


def test_who_comes_later_takes_part_from_then_on() -> None:
    crew = FakeCrew([TWO[0]])
    run = started(crew, duration_s=60, warmup_requests=4)
    crew.members.append(TWO[1])
    run.look_around()
    told = assignment(crew, TWO[1])
    share = NewShare.model_validate(crew.last_told(TWO[0], messages.SHARE))

    assert (told.worker, told.index, told.count, told.warmup_requests) == (1, 1, 2, 0)
    assert (share.index, share.count) == (0, 2)
    assert run.partial == []


def test_a_worker_that_fails_ends_the_run_and_is_named() -> None:
    crew = FakeCrew(list(TWO))
    run = started(crew, duration_s=60)
    run.fail(assignment(crew, TWO[1]).run, TWO[1], 'no workload file "mine.yaml"')

    assert not run.advance()
    assert run.error == 'worker "2 on host": no workload file "mine.yaml"'


def handing_over(crew: FakeCrew, run: Run, requests: int) -> None:
    """Each member answers a stop with its last report."""

    def answer(member: str, message: str, data: Mapping[str, Any]) -> None:
        if message == messages.STOP:
            run.hear_done(member, report(crew, member, requests))

    crew.on_message = answer


def test_the_last_reports_count() -> None:
    crew = FakeCrew(TWO)
    run = started(crew, requests=100)
    handing_over(crew, run, 6)
    run.stop(grace_s=7.0)

    assert Stop.model_validate(crew.last_told(TWO[0], messages.STOP)).grace_s == 7.0
    assert [target.requests for target in run.result().targets] == [12]


@pytest.mark.parametrize(
    ("more", "partial"),
    [
        ({"duration_s": 60}, ("stopped after 0 s of 60 s",)),
        ({"requests": 100}, ("stopped after 6 of 100 requests",)),
        ({}, ()),
    ],
)
def test_a_run_that_is_stopped_before_its_end_says_so(more: dict[str, Any], partial: tuple[str, ...]) -> None:
    crew = FakeCrew(["host_1"])
    run = started(crew, **more)
    run.hear("host_1", report(crew, "host_1", 6))
    handing_over(crew, run, 0)
    run.stop(grace_s=0.0)

    assert run.result().partial == partial


def test_who_does_not_hand_over_is_given_up_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_ANSWER_S", 0.1)
    run = started(FakeCrew(["host_1"]))
    run.stop(grace_s=0.0)

    assert run.partial == ['worker "1 on host" did not hand over its last figures']


class SearchedServer:
    """Keeps the SLA up to `capacity` requests a second, judged by one worker's reports."""

    def __init__(self, capacity: float, monkeypatch: pytest.MonkeyPatch) -> None:
        # Steps that have ended as soon as they have begun.
        monkeypatch.setattr("loadtest.run.searching.step_seconds", lambda _: 1e-6)
        monkeypatch.setattr("loadtest.run.searching.LEAST_CONFIRMATION_S", 1e-6)
        self.crew = FakeCrew(["host_1"], is_remote=False)
        self.capacity = capacity
        self.rates: list[float] = []

    def search(self, **more: Any) -> Run:
        sla = SlaLimits(ttft_ms=1000, min_qps=1e-9)
        run = started(self.crew, sla, shape="search", rate=1, peak_rate=64, **more)
        for _ in range(40):
            rate = assignment(self.crew, "host_1").stage.rate
            assert rate is not None
            if not self.rates or self.rates[-1] != rate:
                self.rates.append(rate)
                run.hear("host_1", report(self.crew, "host_1", 5, sent=True))
                if rate > self.capacity:
                    run.hear("host_1", self.late(run))
            time.sleep(0.001)
            if not run.advance():
                break
        handing_over(self.crew, run, 0)
        run.stop(0.0)
        return run

    def late(self, run: Run) -> dict[str, Any]:
        """A report of a request that took 30 s."""
        told = assignment(self.crew, "host_1")
        ledger = Ledger(told.options, told.sla, started_at=time.time() - 60)
        for _ in range(5):
            ledger.begin("a")
            ledger.add(outcome("a", time.time() - 30))
        return report(self.crew, "host_1", sent=True, stage_ledger=ledger.drain())


def test_a_search_converges_on_the_capacity_and_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SearchedServer(10.0, monkeypatch)
    run = server.search()
    result = run.result()

    assert result.search is not None
    assert result.search.highest_rate_inside is not None
    assert result.search.lowest_rate_outside is not None
    assert result.search.highest_rate_inside <= 10 < result.search.lowest_rate_outside
    assert result.search.lowest_rate_outside <= result.search.highest_rate_inside * 1.05
    assert server.rates[-1] == result.search.highest_rate_inside
    assert [target.requests for target in result.targets] == [5]
    assert result.partial == ()
    outside = next(step for step in result.search.steps if not step.inside)
    assert outside.reasons[0].startswith("a: ttft_ms: ")


def test_a_search_that_finds_nothing_has_the_figures_of_the_lowest_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    result = SearchedServer(0.5, monkeypatch).search().result()

    assert result.search is not None
    assert result.search.highest_rate_inside is None
    assert [step.rate for step in result.search.steps] == [1.0]
    assert [target.requests for target in result.targets] == [10]


def test_a_step_whose_requests_do_not_end_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadtest.run.searching.step_seconds", lambda _: 1e-6)
    monkeypatch.setattr(running, "_STEP_GRACE_S", 0.05)
    crew = FakeCrew(["host_1"], is_remote=False)
    run = started(crew, SlaLimits(ttft_ms=1000), shape="search", rate=1, peak_rate=4)
    told = assignment(crew, "host_1")
    ledger = Ledger(told.options, told.sla, started_at=time.time())
    ledger.begin("a")
    run.hear("host_1", report(crew, "host_1", sent=True, in_flight=1, stage_ledger=ledger.drain()))
    assert run.advance()
    time.sleep(0.06)

    assert not run.advance()
    search = run.result().search
    assert search is not None
    assert search.steps[0].reasons[-1] == "a: 1 requests were not answered in time"
