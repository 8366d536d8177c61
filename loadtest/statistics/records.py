"""One line a request, for what distributions cannot tell: confidence intervals, what came after what.

Only the first `MOST_RECORDS` requests of a run are kept, so that a night's run does not fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from pydantic import TypeAdapter

from loadtest.statistics.outcome import ErrorKind, Outcome

MOST_RECORDS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Record:
    """A counted request, as one line of records.jsonl.

    Attributes:
        due_at: seconds since the epoch.
        ttft_ms, tpot_ms, e2e_ms: of a whole answer, from when it was due; a failure has none.
        output_tokens: by the server's count.
        failure: its kind; None for a whole answer.
    """

    target: str
    due_at: float
    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    output_tokens: int
    failure: ErrorKind | None

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """What is kept of the outcome, to the microsecond."""
        due_at = round(outcome.due_at, 6)
        if outcome.failure is not None:
            return cls(outcome.target, due_at, None, None, None, outcome.output_tokens, outcome.failure.kind)
        latencies = (_milliseconds(outcome.ttft_s), _milliseconds(outcome.tpot_s), _milliseconds(outcome.e2e_s))
        return cls(outcome.target, due_at, *latencies, outcome.output_tokens, None)


_RECORD: Final = TypeAdapter(Record)


def record_line(record: Record) -> str:
    """The record as a line of JSON, without its end."""
    return _RECORD.dump_json(record).decode()


def read_record(line: str) -> Record:
    """The record in that line. Raises pydantic's ValidationError."""
    return _RECORD.validate_json(line)


class Records:
    """The first records of a run, and how many came after them."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._room = most
        self._kept: list[Record] = []
        self.left_out = 0

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome if there is room."""
        if self._room:
            self._room -= 1
            self._kept.append(Record.of(outcome))
        else:
            self.left_out += 1

    def merge(self, records: Iterable[Record], left_out: int) -> None:
        """Keep what there is room for of another's."""
        found = list(records)
        kept = found[: self._room]
        self._room -= len(kept)
        self._kept += kept
        self.left_out += left_out + len(found) - len(kept)

    def drain(self) -> tuple[list[Record], int]:
        """What was kept and how many were left out since the last time; what was handed over takes up room still."""
        drained = self._kept, self.left_out
        self._kept, self.left_out = [], 0
        return drained

    def by_due_time(self) -> tuple[Record, ...]:
        """What was kept, earliest due first."""
        return tuple(sorted(self._kept, key=lambda record: record.due_at))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
