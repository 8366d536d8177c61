"""What is added up of one target's counted requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from loadtest.statistics.histogram import Histogram, PackedHistogram, bucket_of
from loadtest.statistics.outcome import Outcome

_MOST_MESSAGES: Final = 200
_MESSAGE_LENGTH: Final = 500
_OTHER_MESSAGES: Final = "(other messages)"


class Latencies(NamedTuple):
    """The buckets that a whole answer's latencies fall into; empty where it has none."""

    ttft: tuple[int, ...]
    tpot: tuple[int, ...]
    itl: tuple[int, ...]
    e2e: tuple[int, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Latencies | None:
        """None for a failure: how long it took says nothing about how fast answers are."""
        if outcome.failure is not None:
            return None
        return cls(
            ttft=() if outcome.ttft_s is None else (bucket_of(outcome.ttft_s),),
            tpot=() if outcome.tpot_s is None else (bucket_of(outcome.tpot_s),),
            itl=tuple(map(bucket_of, outcome.itl_s)),
            e2e=(bucket_of(outcome.e2e_s),),
        )


@dataclass(slots=True)
class Tally:
    """Counts and distributions. Everything in it can be added up in any order.

    `ended_at` is when the last of the requests ended, in seconds since the start of the run. `messages` keeps the first
    200 texts apart, the rest count as "(other messages)". `cut_counted` are the cut requests whose tokens are known,
    `cut_output_tokens` what they had received.
    """

    requests: int = 0
    good: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cut_counted: int = 0
    cut_output_tokens: int = 0
    responses: int = 0
    ended_at: float = 0.0
    served_by: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    finish_reasons: Counter[str] = field(default_factory=Counter)
    ttft: PackedHistogram = field(default_factory=Histogram)
    tpot: PackedHistogram = field(default_factory=Histogram)
    itl: PackedHistogram = field(default_factory=Histogram)
    e2e: PackedHistogram = field(default_factory=Histogram)
    lag: PackedHistogram = field(default_factory=Histogram)

    def add(self, outcome: Outcome, ended_at: float, *, good: bool, latencies: Latencies | None) -> None:
        """Count one request. The tokens of a failure count: the server has generated them."""
        self.requests += 1
        self.good += good
        self.input_tokens += outcome.input_tokens
        self.output_tokens += outcome.output_tokens
        self.responses += outcome.responses
        self.ended_at = max(self.ended_at, ended_at)
        self.lag.record(bucket_of(outcome.send_lag_s))
        if outcome.served_by:
            self.served_by[outcome.served_by] += 1
        if outcome.finish_reason:
            self.finish_reasons[outcome.finish_reason] += 1
        if outcome.failure is not None:
            self.failures[outcome.failure.kind.value] += 1
            self._count_message(outcome.failure.message[:_MESSAGE_LENGTH], 1)
        if latencies is not None:
            self.ttft.record_all(latencies.ttft)
            self.tpot.record_all(latencies.tpot)
            self.itl.record_all(latencies.itl)
            self.e2e.record_all(latencies.e2e)

    def merge(self, other: Tally) -> None:
        """Add the other's counts."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ended_at = max(self.ended_at, other.ended_at)
        for name in ("served_by", "failures", "finish_reasons"):
            getattr(self, name).update(getattr(other, name))
        for message, count in other.messages.items():
            self._count_message(message, count)
        for name in HISTOGRAMS:
            getattr(self, name).merge(getattr(other, name))

    def _count_message(self, message: str, count: int) -> None:
        known = message in self.messages or len(self.messages) < _MOST_MESSAGES
        self.messages[message if known else _OTHER_MESSAGES] += count


_COUNTS: Final = (
    *("requests", "good", "input_tokens", "output_tokens"),
    *("cut_counted", "cut_output_tokens", "responses"),
)
HISTOGRAMS: Final = ("ttft", "tpot", "itl", "e2e", "lag")
