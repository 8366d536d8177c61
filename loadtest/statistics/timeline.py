"""What happened in each second of a run, per target: for charts, while it runs and afterwards.

The warm-up is in it. A request counts in the second in which it ended, so the last seconds of a run that is on still
grow while workers report; whoever draws them asks for them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict

from loadtest.statistics.histogram import Histogram, PackedHistogram
from loadtest.statistics.outcome import Outcome, part_name
from loadtest.statistics.tally import Latencies

Percentiles = tuple[float | None, ...]

_SETTLED_AFTER_S: Final = 60
"""Later than that hardly anything is added to a second."""


class Second(BaseModel):
    """One target in the second that starts `second` seconds after the run.

    Attributes:
        requests: that ended, whole answers and failures together.
        output_tokens: of the requests that ended or were cut.
        in_flight: at the end of the second.
        good: whole answers inside the SLA; None without SLA.
        ttft_p50_ms and the others: of the whole answers that ended; None when there were none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    second: int
    requests: int
    failures: int
    output_tokens: int
    in_flight: int
    good: int | None
    ttft_p50_ms: float | None = None
    ttft_p95_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    e2e_p95_ms: float | None = None


class Timeline(BaseModel):
    """Per target, one entry for each second, without gaps. What a release router's models answered comes last, each as
    "router > model:version".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: dict[str, tuple[Second, ...]]


@dataclass(slots=True)
class SecondCounts:
    """What a worker counted in one second for one target; it can be added up."""

    target: str
    second: int
    begun: int = 0
    ended: int = 0
    failures: int = 0
    output_tokens: int = 0
    good: int = 0
    ttft: PackedHistogram = field(default_factory=Histogram)
    itl: PackedHistogram = field(default_factory=Histogram)
    e2e: PackedHistogram = field(default_factory=Histogram)

    def merge(self, other: SecondCounts) -> None:
        """Add the other's counts."""
        self.begun += other.begun
        self.ended += other.ended
        self.failures += other.failures
        self.output_tokens += other.output_tokens
        self.good += other.good
        self.ttft.merge(other.ttft)
        self.itl.merge(other.itl)
        self.e2e.merge(other.e2e)

    def percentiles_ms(self) -> Percentiles:
        """TTFT p50 and p95, ITL p50 and p95, end to end p95."""
        return (*self.ttft.percentiles_ms(500, 950), *self.itl.percentiles_ms(500, 950), *self.e2e.percentiles_ms(950))

    def compact(self) -> None:
        """Take less memory, until something is added."""
        for histogram in (self.ttft, self.itl, self.e2e):
            histogram.compact()


class SecondsLedger:
    """All seconds of a run, or of what a worker has not handed over yet."""

    def __init__(self, targets: Sequence[str], *, has_sla: bool) -> None:
        self._has_sla = has_sla
        self._seconds: dict[str, dict[int, SecondCounts]] = {target: {} for target in targets}
        self._growing: deque[SecondCounts] = deque()
        self._settled: dict[tuple[str, int], Percentiles] = {}

    def begin(self, target: str, at: float) -> None:
        """A request was sent `at` seconds after the start."""
        self._counts_at(target, int(at)).begun += 1

    def end(self, outcome: Outcome, at: float, *, good: bool, latencies: Latencies | None) -> None:
        """A request ended `at` seconds after the start; `latencies` are those of a whole answer."""
        self._end(outcome.target, outcome, at, good=good, latencies=latencies)
        if outcome.is_routed:
            # Who took a request is known only now.
            part = part_name(outcome.target, outcome.served_by)
            self._counts_at(part, int(at - outcome.e2e_s + outcome.send_lag_s)).begun += 1
            self._end(part, outcome, at, good=good, latencies=latencies)

    def _end(self, name: str, outcome: Outcome, at: float, *, good: bool, latencies: Latencies | None) -> None:
        counts = self._counts_at(name, int(at))
        counts.ended += 1
        counts.output_tokens += outcome.output_tokens
        counts.good += good
        if latencies is None:
            counts.failures += 1
            return
        counts.ttft.record_all(latencies.ttft)
        counts.itl.record_all(latencies.itl)
        counts.e2e.record_all(latencies.e2e)

    def cut(self, target: str, at: float, output_tokens: int) -> None:
        """A request that had received so many tokens was cut `at` seconds after the start."""
        self._counts_at(target, int(at)).output_tokens += output_tokens

    def merge(self, drained: Iterable[SecondCounts]) -> None:
        """Add what a worker handed over."""
        for counts in drained:
            self._counts_at(counts.target, counts.second).merge(counts)

    def drain(self) -> list[SecondCounts]:
        """What came since the last time, and forget it."""
        drained = [counts for seconds in self._seconds.values() for counts in seconds.values()]
        self._seconds = {target: {} for target in self._seconds}
        self._growing.clear()
        self._settled.clear()
        return drained

    def timeline(self, since: int, until: int) -> Timeline:
        """Seconds from `since` on, to `until` or to the last one in which something happened, whichever is later."""
        last = max([until, *(second for seconds in self._seconds.values() for second in seconds)])
        return Timeline(targets={target: tuple(self._filled(target, since, last)) for target in self._seconds})

    def _filled(self, target: str, since: int, last: int) -> Iterator[Second]:
        in_flight = 0
        for second in range(last + 1):
            counts = self._seconds[target].get(second) or SecondCounts(target, second)
            in_flight += counts.begun - counts.ended
            if second < since:
                continue
            percentiles = self._settled.get((target, second)) or counts.percentiles_ms()
            ttft_p50, ttft_p95, itl_p50, itl_p95, e2e_p95 = percentiles
            yield Second(
                second=second,
                requests=counts.ended,
                failures=counts.failures,
                output_tokens=counts.output_tokens,
                in_flight=in_flight,
                good=counts.good if self._has_sla else None,
                ttft_p50_ms=ttft_p50,
                ttft_p95_ms=ttft_p95,
                itl_p50_ms=itl_p50,
                itl_p95_ms=itl_p95,
                e2e_p95_ms=e2e_p95,
            )

    def _counts_at(self, target: str, second: int) -> SecondCounts:
        """The counts of that second, to be added to."""
        second = max(second, 0)
        counts = self._seconds.setdefault(target, {}).get(second)
        if counts is None:
            counts = self._seconds[target][second] = SecondCounts(target, second)
            self._growing.append(counts)
            self._settle(before=second - _SETTLED_AFTER_S)
        elif self._settled.pop((target, second), None):
            self._growing.append(counts)
        return counts

    def _settle(self, before: int) -> None:
        while self._growing[0].second < before:
            counts = self._growing.popleft()
            self._settled[counts.target, counts.second] = counts.percentiles_ms()
            counts.compact()
