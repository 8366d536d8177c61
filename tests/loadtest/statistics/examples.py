"""Outcomes and ledgers for the tests of the statistics."""

from __future__ import annotations

from typing import Any

from loadtest.options import LoadOptions, SlaLimits
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind, Failure, Outcome
from loadtest.statistics.results import ClientHealth, RunResult

START = 1_800_000_000.0
HEALTHY = ClientHealth(workers=1, cpu_percent=12.0)


class Clock:
    """Seconds since the epoch, set by hand."""

    def __init__(self) -> None:
        self.seconds = START

    def __call__(self) -> float:
        return self.seconds


def options(*targets: str, **given: Any) -> LoadOptions:
    return LoadOptions(host="http://localhost:8000", targets=targets or ("llm",), **given)


def answer(
    due: float = 0.0, *, target: str = "llm", ttft: float | None = 0.1, e2e: float = 1.0, **given: Any
) -> Outcome:
    """A whole answer of 10 tokens, due `due` seconds after the start."""
    fields: dict[str, Any] = {
        "served_by": f"{target}:1",
        "send_lag_s": 0.001,
        "tpot_s": 0.05,
        "itl_s": (0.04, 0.06),
        "input_tokens": 5,
        "output_tokens": 10,
        "responses": 3,
        "finish_reason": "length",
    }
    return Outcome(target=target, due_at=START + due, ttft_s=ttft, e2e_s=e2e, **(fields | given))


def failure(
    due: float = 0.0, *, kind: ErrorKind = ErrorKind.TRUNCATED, message: str = "the stream ended early", **given: Any
) -> Outcome:
    """A failure after 4 tokens that had latencies, which must not count."""
    fields: dict[str, Any] = {"output_tokens": 4, "finish_reason": ""}
    return answer(due, failure=Failure(kind, message), **(fields | given))


def run(ledger: Ledger, clock: Clock, *outcomes: Outcome) -> None:
    """Let the requests run one after the other, each in its own time."""
    for outcome in outcomes:
        clock.seconds = outcome.due_at
        ledger.begin(outcome.target, outcome.due_at)
        clock.seconds = outcome.due_at + outcome.e2e_s
        ledger.add(outcome)


def result_of(
    *outcomes: Outcome,
    sla: SlaLimits | None = None,
    seconds: float = 60.0,
    partial: tuple[str, ...] = (),
    client: ClientHealth = HEALTHY,
    **given: Any,
) -> RunResult:
    """The result of a run of just these outcomes."""
    targets = tuple(dict.fromkeys(outcome.target for outcome in outcomes))
    clock = Clock()
    ledger = Ledger(options(*targets, **given), sla, started_at=START, clock=clock)
    run(ledger, clock, *outcomes)
    return ledger.result(seconds=seconds, client=client, partial=partial)
