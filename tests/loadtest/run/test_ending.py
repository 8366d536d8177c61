"""What a run's end says to whoever started it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from loadtest.options import LoadOptions, SlaLimits
from loadtest.run.ending import exit_code, search_lines
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind, Failure
from loadtest.statistics.results import ClientHealth, RunResult, SearchResult, SearchStep
from tests.loadtest.run.fakes import outcome

FAST, SLOW = SlaLimits(ttft_ms=60_000), SlaLimits(ttft_ms=1e-3)


def result(sla: SlaLimits | None = None, *, requests: int = 3, failures: int = 0, **more: Any) -> RunResult:
    now = datetime.now(UTC).timestamp()
    ledger = Ledger(LoadOptions(host="http://h:1", targets=("a",)), sla, started_at=now - 1)
    for number in range(requests):
        ledger.begin("a")
        failure = Failure(ErrorKind.SERVER, "broken") if number < failures else None
        ledger.add(outcome("a", now - 0.1, failure=failure))
    client = ClientHealth(workers=1, cpu_percent=None)
    return ledger.result(seconds=1.0, client=client).model_copy(update=more)


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (result(), 0),
        (result(FAST), 0),
        (result(SLOW), 1),
        (result(failures=1), 1),
        (result(FAST, failures=1), 1),
        (result(SlaLimits(ttft_ms=60_000, max_failures_percent=50), failures=1), 0),
        (result(requests=0), 2),
        (result(FAST, partial=("stopped after 3 s of 60 s",)), 2),
        (result(SLOW, partial=("worker lost",)), 2),
    ],
)
def test_the_exit_code_says_whether_what_was_promised_was_kept(ended: RunResult, code: int) -> None:
    assert exit_code(ended) == code


def search(inside: float | None, outside: float | None) -> SearchResult:
    steps = (
        SearchStep(rate=2.0, inside=inside is not None, reasons=()),
        SearchStep(rate=4.0, inside=False, reasons=("a: ttft_ms: 900 ms",)),
    )
    return SearchResult(highest_rate_inside=inside, lowest_rate_outside=outside, steps=steps)


def test_a_search_without_a_rate_inside_misses() -> None:
    assert exit_code(result(FAST, search=search(None, 2.0))) == 1
    assert exit_code(result(FAST, search=search(2.0, 4.0))) == 0


@pytest.mark.parametrize(
    ("found", "last"),
    [
        (search(2.0, 4.0), "highest rate inside the SLA: 2 requests/s (4 is outside)"),
        (search(4.0, None), "highest rate inside the SLA: 4 requests/s (the highest that was allowed)"),
        (search(None, 2.0), "no rate inside the SLA was found"),
    ],
)
def test_a_search_says_what_it_tried_and_found(found: SearchResult, last: str) -> None:
    lines = [line.plain for line in search_lines(result(FAST, search=found))]

    assert lines[1] == "4 requests/s: outside: a: ttft_ms: 900 ms"
    assert lines[-1] == last


def test_without_a_search_there_is_nothing_to_say_of_one() -> None:
    assert list(search_lines(result())) == []
