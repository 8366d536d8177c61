"""Whether the client kept up: figures of a client that could not are its own, not the server's.

Three signs, each with its limit:
- requests went out late: the p99 of a target's send lag is over 5 ms and over a tenth of its TTFT's p99;
- a process that sends requests used 90 % of a core for 5 s, where Locust warns too: Python code has one core;
- what a process waited for was looked at late: the p99 of its event loop's lag is over the same limit as the send lag.
A tenth, because the lag is part of every latency: what is under it moves no figure by more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import gevent
from pydantic import TypeAdapter

from loadtest.statistics.histogram import Histogram, PackedHistogram, bucket_of
from loadtest.statistics.results import ClientHealth

_PROBE_S: Final = 0.05
_WINDOW_S: Final = 5.0
_BUSY_PERCENT: Final = 90.0
_SMALLEST_LIMIT_MS: Final = 5.0
_SHARE_OF_LATENCY: Final = 0.1


class SendLag(NamedTuple):
    """How late a target's requests went out, next to how long its answers take to begin (or, in one piece, to end)."""

    target: str
    lag_p99_ms: float | None
    latency_p99_ms: float | None

    @property
    def limit_ms(self) -> float:
        """The longest lag that leaves the latencies what they are."""
        return max(_SMALLEST_LIMIT_MS, _SHARE_OF_LATENCY * (self.latency_p99_ms or 0.0))


@dataclass(slots=True)
class _ProcessLoad:
    """`cpu_percent` of one core, in the busiest 5 s so far; None in a run that is shorter."""

    cpu_percent: float | None = None
    loop_lag: PackedHistogram = field(default_factory=Histogram)

    def merge(self, other: _ProcessLoad) -> None:
        self.see_cpu(other.cpu_percent)
        self.loop_lag.merge(other.loop_lag)

    def see_cpu(self, percent: float | None) -> None:
        if percent is not None:
            self.cpu_percent = max(percent, self.cpu_percent or 0.0)


_LOAD: Final = TypeAdapter(_ProcessLoad)


class HealthWatch:
    """Watches the process that it is started in, and adds up what workers report of theirs.

    Args:
        warmup_s: how long after the start watching begins; starting many users is hard work that is not measured.
        clock, cpu_clock: seconds, of the world and of this process on all cores.
        sleep: gives way to other greenlets for so many seconds.
    """

    def __init__(
        self,
        *,
        warmup_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = gevent.sleep,
    ) -> None:
        self._warmup_s = warmup_s
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._sleep = sleep
        self._own = _ProcessLoad()
        self._workers: dict[str, _ProcessLoad] = {}
        self._watcher: gevent.Greenlet | None = None
        self._watched = False

    def start(self) -> None:
        """Begin to watch this process, in a greenlet. A master that sends no requests does not."""
        self._watcher = gevent.spawn(self.watch)

    def stop(self) -> None:
        """End watching; what was seen stays."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher = None

    def watch(self) -> None:
        """Watch this process until the greenlet is killed."""
        self._sleep(self._warmup_s)
        self._watched = True
        window_from, cpu_before = self._clock(), self._cpu_clock()
        while True:
            asleep_from = self._clock()
            self._sleep(_PROBE_S)
            now = self._clock()
            self._own.loop_lag.record(bucket_of(now - asleep_from - _PROBE_S))
            if now - window_from >= _WINDOW_S:
                cpu = self._cpu_clock()
                self._own.see_cpu(100 * (cpu - cpu_before) / (now - window_from))
                window_from, cpu_before = now, cpu

    def drain(self) -> dict[str, Any]:
        """What was seen of this process since the last time, as a message, and forget it."""
        message: dict[str, Any] = _LOAD.dump_python(self._own)
        self._own = _ProcessLoad()
        return message

    def merge(self, worker: str, drained: Mapping[str, Any]) -> None:
        """Add what a worker handed over. Raises pydantic's ValidationError when it is no such message."""
        self._workers.setdefault(worker, _ProcessLoad()).merge(_LOAD.validate_python(drained))

    def health(self, send_lags: Iterable[SendLag]) -> ClientHealth:
        """What is known so far. `send_lags` are `Ledger.send_lags()`."""
        lags = list(send_lags)
        loads = {f'worker "{name}"': load for name, load in self._workers.items()}
        if self._watched:
            loads["the load generator"] = self._own
        loop_lags = {name: load.loop_lag.percentiles_ms(990)[0] for name, load in loads.items()}
        return ClientHealth(
            workers=len(loads),
            cpu_percent=max(
                (load.cpu_percent for load in loads.values() if load.cpu_percent is not None), default=None
            ),
            loop_lag_p99_ms=max((lag for lag in loop_lags.values() if lag is not None), default=None),
            saturated=(*_late_requests(lags), *_busy(loads), *_late_looks(loop_lags, lags)),
        )


def _late_requests(lags: Iterable[SendLag]) -> Iterator[str]:
    for lag in lags:
        if lag.lag_p99_ms is not None and lag.lag_p99_ms > lag.limit_ms:
            yield (
                f'requests to "{lag.target}" went out late: p99 of the send lag {lag.lag_p99_ms:.3g} ms, over '
                f"{lag.limit_ms:.3g} ms; its latencies are partly the client's own: use more workers or less load"
            )


def _busy(loads: Mapping[str, _ProcessLoad]) -> Iterator[str]:
    for name, load in loads.items():
        if load.cpu_percent is not None and load.cpu_percent >= _BUSY_PERCENT:
            yield (
                f"{name} used {load.cpu_percent:.0f} % of a core at its busiest, and one core is all it can use: "
                "use more workers or less load"
            )


def _late_looks(loop_lags: Mapping[str, float | None], send_lags: Sequence[SendLag]) -> Iterator[str]:
    limit = min((lag.limit_ms for lag in send_lags), default=_SMALLEST_LIMIT_MS)
    for name, lag in loop_lags.items():
        if lag is not None and lag > limit:
            yield (
                f"{name} looked at answers late: p99 of the event loop's lag {lag:.3g} ms, over {limit:.3g} ms; "
                "use more workers, less load, or a machine that does nothing else"
            )
