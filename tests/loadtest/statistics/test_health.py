from __future__ import annotations

import time
from collections.abc import Iterator

import gevent
import msgpack
import pytest
from pydantic import ValidationError

from loadtest.statistics.health import HealthWatch, SendLag
from loadtest.statistics.results import ClientHealth

QUICK = (SendLag("llm", lag_p99_ms=0.3, latency_p99_ms=40.0),)


class Machine:
    """A process that is `busy` for that share of the time, and is `late` whenever it wakes up."""

    def __init__(self, *, busy: float = 0.1, late: float = 0.0, seconds: float = 20.0) -> None:
        self.now = self.cpu = 0.0
        self.busy = busy
        self.late = late
        self.seconds = seconds

    def sleep(self, seconds: float) -> None:
        if self.now >= self.seconds:
            raise gevent.GreenletExit
        self.now += seconds + self.late
        self.cpu += (seconds + self.late) * self.busy


def watched(machine: Machine, *, warmup_s: float = 0.0) -> HealthWatch:
    watch = HealthWatch(
        warmup_s=warmup_s, clock=lambda: machine.now, cpu_clock=lambda: machine.cpu, sleep=machine.sleep
    )
    with pytest.raises(gevent.GreenletExit):
        watch.watch()
    return watch


def test_a_client_that_keeps_up_says_nothing() -> None:
    found = watched(Machine(busy=0.5, late=0.001)).health(QUICK)
    assert found.saturated == ()
    assert (found.workers, found.cpu_percent) == (1, pytest.approx(50))
    assert found.loop_lag_p99_ms == pytest.approx(1.0, abs=0.01)


def test_a_process_that_uses_up_its_core_is_named_with_the_figure() -> None:
    assert watched(Machine(busy=0.97)).health(QUICK).saturated == (
        "the load generator used 97 % of a core at its busiest, and one core is all it can use: "
        "use more workers or less load",
    )


def test_an_event_loop_that_is_late_is_named_with_the_figure() -> None:
    assert watched(Machine(late=0.03)).health(QUICK).saturated == (
        "the load generator looked at answers late: p99 of the event loop's lag 30 ms, over 5 ms; "
        "use more workers, less load, or a machine that does nothing else",
    )


def test_requests_that_go_out_late_are_named_with_the_figure() -> None:
    lags = (SendLag("llm", 63.2, 40.0), SendLag("slow", 63.2, 700.0), SendLag("unused", None, None))
    assert watched(Machine()).health(lags).saturated == (
        'requests to "llm" went out late: p99 of the send lag 63.2 ms, over 5 ms; its latencies are partly the '
        "client's own: use more workers or less load",
    )


def test_a_tenth_of_the_latency_is_no_matter() -> None:
    late = watched(Machine(late=0.03))
    assert late.health((SendLag("slow", 29.0, 400.0),)).saturated == ()
    assert len(late.health((SendLag("slow", 29.0, 400.0), SendLag("quick", 1.0, 40.0))).saturated) == 1


def test_the_busiest_five_seconds_count() -> None:
    machine = Machine(busy=0.2, seconds=10)
    watch = watched(machine)
    machine.busy, machine.seconds = 0.95, 17
    with pytest.raises(gevent.GreenletExit):
        watch.watch()
    machine.busy, machine.seconds = 0.2, 40
    with pytest.raises(gevent.GreenletExit):
        watch.watch()
    assert watch.health(QUICK).cpu_percent == pytest.approx(95)


def test_a_moment_of_work_is_not_judged() -> None:
    assert watched(Machine(busy=0.95, seconds=4)).health(QUICK).cpu_percent is None


def test_starting_up_is_not_judged() -> None:
    machine = Machine(busy=0.1, seconds=30)
    machine.cpu = 100.0
    assert watched(machine, warmup_s=10).health(QUICK).cpu_percent == pytest.approx(10)


def test_workers_are_merged_and_named() -> None:
    master = HealthWatch()
    for name, busy in (("host_1", 0.3), ("host_2", 0.96)):
        watch = watched(Machine(busy=busy, late=0.002))
        for _ in range(2):
            master.merge(name, msgpack.unpackb(msgpack.packb(watch.drain())))
    found = master.health(QUICK)
    assert (found.workers, found.cpu_percent) == (2, pytest.approx(96))
    assert found.loop_lag_p99_ms == pytest.approx(2.0, rel=1e-2)
    (reason,) = found.saturated
    assert reason.startswith('worker "host_2" used 96 % of a core')


def test_before_anything_was_watched_nothing_is_known() -> None:
    assert HealthWatch().health(()) == ClientHealth(workers=0, cpu_percent=None)


def test_a_message_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="loop_lag"):
        HealthWatch().merge("host_1", {"cpu_percent": 1.0, "loop_lag": b"damaged"})


@pytest.fixture
def watch() -> Iterator[HealthWatch]:
    watch = HealthWatch()
    watch.start()
    yield watch
    watch.stop()


@pytest.mark.slow
def test_a_running_watch_sees_that_its_own_process_blocks(watch: HealthWatch) -> None:
    with gevent.Timeout(60):
        while watch.health(QUICK).loop_lag_p99_ms is None:
            gevent.sleep(0.01)
        blocked_until = time.monotonic() + 0.3  # longer than the probe sleeps, which is over when this ends
        while time.monotonic() < blocked_until:
            pass
        while (watch.health(QUICK).loop_lag_p99_ms or 0.0) < 200:
            gevent.sleep(0.01)
    assert watch.health(QUICK).workers == 1
