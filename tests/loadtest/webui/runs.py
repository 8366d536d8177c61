"""Results of load tests, added up from outcomes that were made up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from loadtest.options import LoadOptions, SlaLimits
from loadtest.statistics.ledger import Ledger
from loadtest.statistics.outcome import ErrorKind, Failure, Outcome
from loadtest.statistics.results import ClientHealth, RunResult
from loadtest.statistics.timeline import Timeline

STARTED_AT = 1_800_000_000.0
HEALTHY = ClientHealth(workers=1, cpu_percent=20.0)
SATURATED = ClientHealth(workers=1, cpu_percent=99.0, saturated=("the client used 99 % of a core",))


def options(**changed: object) -> LoadOptions:
    """Two targets side by side."""
    values = {"host": "http://127.0.0.1:8000", "targets": ("llm_bf16", "llm_awq"), "users": 4, **changed}
    return LoadOptions.model_validate(values)


def answer(target: str, second: float, ttft_s: float = 0.2, tokens: int = 11, itl_s: float = 0.02) -> Outcome:
    """A whole answer that was due at that second of the run."""
    gaps = (itl_s,) * (tokens - 1)
    return Outcome(
        target=target,
        served_by=f"{target.partition(':')[0]}:1",
        due_at=STARTED_AT + second,
        send_lag_s=0.001,
        ttft_s=ttft_s,
        e2e_s=ttft_s + sum(gaps),
        tpot_s=itl_s if gaps else None,
        itl_s=gaps,
        input_tokens=50,
        output_tokens=tokens,
        responses=tokens,
        finish_reason="stop",
    )


def failure(target: str, second: float, message: str, kind: ErrorKind = ErrorKind.SERVER) -> Outcome:
    """A request that failed at once."""
    return Outcome(
        target=target,
        served_by="",
        due_at=STARTED_AT + second,
        send_lag_s=0.0,
        ttft_s=None,
        e2e_s=0.01,
        tpot_s=None,
        failure=Failure(kind, message),
    )


def run_of(
    outcomes: Iterable[Outcome],
    *,
    options: LoadOptions | None = None,
    sla: SlaLimits | None = None,
    client: ClientHealth = HEALTHY,
    partial: Sequence[str] = (),
) -> tuple[RunResult, Timeline]:
    """The run in which these came to pass, each ending when it says."""
    asked = options or _OPTIONS
    now = ended_at = STARTED_AT
    ledger = Ledger(asked, sla, started_at=STARTED_AT, clock=lambda: now)
    for outcome in outcomes:
        now = outcome.due_at
        ledger.begin(outcome.target, outcome.due_at)
        now = outcome.due_at + outcome.e2e_s
        ended_at = max(ended_at, now)
        ledger.add(outcome)
    return ledger.result(seconds=ended_at - STARTED_AT, client=client, partial=partial), ledger.timeline()


def two_targets(seconds: int = 20) -> list[Outcome]:
    """Two answers a second from each target; llm_awq is the faster one, and fails once."""
    return [
        *(answer("llm_bf16", at / 2, ttft_s=0.3 + at % 5 / 50) for at in range(2 * seconds)),
        *(answer("llm_awq", at / 2, ttft_s=0.2 + at % 7 / 50, itl_s=0.01) for at in range(2 * seconds)),
        failure("llm_awq", seconds / 2, "the engine is gone"),
    ]


_OPTIONS = options()


def routed() -> list[Outcome]:
    """Answers that the router "chat" handed on; the last one is the first that llm_awq gave."""
    served = ["llm_bf16:1", "llm_bf16:1", "llm_bf16:1", "llm_awq:1"]
    return [replace(answer("chat", second), served_by=model) for second, model in enumerate(served)]
