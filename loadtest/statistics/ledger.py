"""The books of a run: every outcome goes in once, on whichever worker, and the figures of the whole run come out.

A worker hands over what came since the last time (`drain`), the master adds it up (`merge`). Times are kept relative
to the start of the run, each by its own machine's clock, so that clocks which disagree do not matter.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from pydantic import TypeAdapter

from loadtest.options import LoadOptions, SlaLimits
from loadtest.statistics.health import SendLag
from loadtest.statistics.histogram import Histogram
from loadtest.statistics.outcome import Outcome, part_name
from loadtest.statistics.records import Record, Records
from loadtest.statistics.results import ClientHealth, RunResult, TargetResult
from loadtest.statistics.sla import is_good, misses
from loadtest.statistics.tally import HISTOGRAMS, Latencies, Tally
from loadtest.statistics.timeline import SecondCounts, SecondsLedger, Timeline

_MOST_MESSAGES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class _Drained:
    """What a worker hands over."""

    tallies: dict[str, Tally]
    parts: dict[str, dict[str, Tally]]
    in_flight: dict[str, int]
    seconds: list[SecondCounts]
    records: list[Record]
    records_left_out: int
    warmup_requests: int
    counted_from: float | None


_DRAINED: Final = TypeAdapter(_Drained)


class Ledger:
    """Counts the outcomes of one run.

    What is due before the end of the warm-up is left out of the figures and of the records, though not of the timeline.
    The warm-up ends `options.warmup_s` after the start and not before `warmup_requests` requests have begun.

    Args:
        started_at: seconds since the epoch.
        warmup_requests: this worker's share of them; None for all that the options name.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        options: LoadOptions,
        sla: SlaLimits | None,
        *,
        started_at: float,
        warmup_requests: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._sla = sla
        self._started_at = started_at
        self._clock = clock
        self._warmup_left = options.warmup_requests if warmup_requests is None else warmup_requests
        self._counted_from = math.inf if self._warmup_left else options.warmup_s
        self._warmup_requests = 0
        self._in_flight: Counter[str] = Counter()
        self._tallies = {target: Tally() for target in options.targets}
        # Of a release router's requests, by who answered.
        self._parts: dict[str, dict[str, Tally]] = {}
        self._seconds = SecondsLedger(options.targets, has_sla=sla is not None)
        self._records = Records()

    def begin(self, target: str, due_at: float | None = None) -> None:
        """A request goes out now, which was due at `due_at` (seconds since the epoch; None for now)."""
        now = self._clock()
        self._in_flight[target] += 1
        self._seconds.begin(target, now - self._started_at)
        if self._counted_from == math.inf:
            if self._warmup_left:
                self._warmup_left -= 1
            else:
                due = (now if due_at is None else due_at) - self._started_at
                self._counted_from = max(self._options.warmup_s, due)

    def add(self, outcome: Outcome) -> bool:
        """A request that began has ended. What still runs when the run is over is not added: it counts as cut.

        Returns whether it was after the warm-up.
        """
        due = outcome.due_at - self._started_at
        latencies = Latencies.of(outcome)
        good = self._sla is not None and is_good(outcome, self._sla)
        self._in_flight[outcome.target] -= 1
        self._seconds.end(outcome, self._clock() - self._started_at, good=good, latencies=latencies)
        if due < self._counted_from:
            self._warmup_requests += 1
            return False
        tallies = [self._tallies[outcome.target]]
        if outcome.is_routed:
            tallies.append(self._part(outcome.target, outcome.served_by))
        for tally in tallies:
            tally.add(outcome, due + outcome.e2e_s, good=good, latencies=latencies)
        self._records.add(outcome)
        return True

    def cut(self, target: str, due_at: float, output_tokens: int | None) -> None:
        """A request that began was ended by this load test after so many tokens; None where they are not known."""
        if output_tokens is None:
            return
        self._tallies[target].cut_counted += 1
        if due_at - self._started_at >= self._counted_from:
            self._tallies[target].cut_output_tokens += output_tokens
            self._seconds.cut(target, self._clock() - self._started_at, output_tokens)

    def drain(self) -> dict[str, Any]:
        """What came since the last time, as a message (numbers, texts, bytes, lists and mappings), and forget it."""
        records, records_left_out = self._records.drain()
        drained = _Drained(
            tallies=self._tallies,
            parts=self._parts,
            in_flight=dict(self._in_flight),
            seconds=self._seconds.drain(),
            records=records,
            records_left_out=records_left_out,
            warmup_requests=self._warmup_requests,
            counted_from=None if self._counted_from == math.inf else self._counted_from,
        )
        message: dict[str, Any] = _DRAINED.dump_python(drained)
        self._tallies = {target: Tally() for target in self._options.targets}
        self._parts = {}
        self._in_flight.clear()
        self._warmup_requests = 0
        return message

    def merge(self, drained: Mapping[str, Any]) -> None:
        """Add what a worker handed over. Raises pydantic's ValidationError when it is no such message."""
        share = _DRAINED.validate_python(drained)
        for target, tally in share.tallies.items():
            self._tallies[target].merge(tally)
        for target, parts in share.parts.items():
            for served_by, tally in parts.items():
                self._part(target, served_by).merge(tally)
        self._in_flight.update(share.in_flight)
        self._seconds.merge(share.seconds)
        self._records.merge(share.records, share.records_left_out)
        self._warmup_requests += share.warmup_requests
        if share.counted_from is not None:
            self._counted_from = min(self._counted_from, share.counted_from)

    def result(
        self,
        *,
        seconds: float,
        client: ClientHealth,
        partial: Sequence[str] = (),
        with_histograms: bool = True,
    ) -> RunResult:
        """The figures so far; `seconds` since the start.

        Encoding histograms takes several milliseconds each, too long for a process that measures latencies meanwhile:
        leave them out of what is only looked at.
        """
        return RunResult(
            options=self._options,
            sla=self._sla,
            started_at=datetime.fromtimestamp(self._started_at, UTC),
            seconds=seconds,
            warmup_requests=self._warmup_requests,
            targets=tuple(self._target_result(target, seconds, with_histograms) for target in self._tallies),
            parts=tuple(self._part_results(seconds, with_histograms)),
            client=client,
            partial=tuple(partial),
            records_left_out=self._records.left_out,
        )

    def timeline(self, since: int = 0, *, seconds: float = 0.0) -> Timeline:
        """Seconds from `since` on, up to the last event, or up to `seconds` after the start if that is later."""
        return self._seconds.timeline(since, int(seconds))

    def send_lags(self) -> tuple[SendLag, ...]:
        """How late each target's requests went out, for `HealthWatch.health`."""
        return tuple(
            SendLag(target, _p99_ms(tally.lag), _p99_ms(tally.ttft if tally.ttft.count else tally.e2e))
            for target, tally in self._tallies.items()
        )

    def records(self) -> tuple[Record, ...]:
        """The first 200,000 counted requests, earliest due first."""
        return self._records.by_due_time()

    def _part(self, target: str, served_by: str) -> Tally:
        return self._parts.setdefault(target, {}).setdefault(served_by, Tally())

    def _target_result(self, target: str, seconds: float, with_histograms: bool) -> TargetResult:
        counted_s = self._counted_s(target, seconds)
        result = self._figures(target, self._tallies[target], counted_s, self._in_flight[target], with_histograms)
        return result.model_copy(update={"missed": misses(result, self._sla)}) if self._sla else result

    def _part_results(self, seconds: float, with_histograms: bool) -> Iterator[TargetResult]:
        for target, parts in sorted(self._parts.items()):
            counted_s = self._counted_s(target, seconds)
            for served_by, tally in sorted(parts.items()):
                yield self._figures(part_name(target, served_by), tally, counted_s, 0, with_histograms)

    def _counted_s(self, target: str, seconds: float) -> float:
        ended_at = self._tallies[target].ended_at
        return max((max(seconds, ended_at) if self._in_flight[target] else ended_at) - self._counted_from, 0.0)

    def _figures(self, target: str, tally: Tally, counted_s: float, cut: int, with_histograms: bool) -> TargetResult:
        histograms: dict[str, Histogram] = {name: getattr(tally, name) for name in HISTOGRAMS}
        output_tokens = tally.output_tokens + tally.cut_output_tokens
        return TargetResult(
            target=target,
            served_by=_most_frequent(tally.served_by),
            protocol=self._options.protocol.value,
            seconds=counted_s,
            requests=tally.requests,
            failures=_most_frequent(tally.failures),
            messages=dict(islice(_most_frequent(tally.messages).items(), _MOST_MESSAGES_SHOWN)),
            cut=cut,
            good=tally.good if self._sla else None,
            input_tokens=tally.input_tokens,
            cut_output_tokens=tally.cut_output_tokens,
            cut_uncounted=max(cut - tally.cut_counted, 0),
            output_tokens=output_tokens,
            responses=tally.responses,
            finish_reasons=_most_frequent(tally.finish_reasons),
            requests_per_s=_rate(tally.requests, counted_s),
            output_tokens_per_s=_rate(output_tokens, counted_s),
            goodput_per_s=_rate(tally.good, counted_s) if self._sla else None,
            ttft_ms=tally.ttft.quantiles(),
            tpot_ms=tally.tpot.quantiles(),
            itl_ms=tally.itl.quantiles(),
            e2e_ms=tally.e2e.quantiles(),
            lag_ms=tally.lag.quantiles(),
            histograms={name: histogram.encode() for name, histogram in histograms.items()} if with_histograms else {},
        )


def _p99_ms(histogram: Histogram) -> float | None:
    return histogram.percentiles_ms(990)[0]


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _most_frequent(counts: Counter[str]) -> dict[str, int]:
    """Most frequent first, and by name among equals, whichever worker reported first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
