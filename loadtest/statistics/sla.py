"""The promise: where it comes from, whether a request is inside it, and which figures of a run are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from loadtest.options import SlaLimits
from loadtest.statistics.histogram import bucket_of
from loadtest.statistics.outcome import Outcome
from loadtest.statistics.results import SlaMiss, TargetResult
from tools.spec.limits import Sla

UNITS: Final = {
    "ttft_ms": "ms",
    "tpot_ms": "ms",
    "p99_e2e_s": "s",
    "min_qps": "good requests/s",
    "max_failures_percent": "%",
}
"""The figures that can be limited, in the order in which they are judged."""


def parse_sla(text: str) -> SlaLimits:
    """Read limits such as "ttft_ms=500,tpot_ms=50,p99_e2e_s=4,min_qps=20". Raises ValueError."""
    limits: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if name not in UNITS or not separator:
            raise ValueError(
                f'SLA "{part.strip()}" is not a limit: write NAME=NUMBER with a NAME of {", ".join(UNITS)}'
            )
        if name in limits:
            raise ValueError(f'SLA "{name}" is given twice: give it once')
        limits[name] = value
    try:
        return SlaLimits.model_validate(limits)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise ValueError(f'SLA "{name}={limits[name]}": {first["msg"]}: give a number of {UNITS[name]}') from None


def from_profile(sla: Sla, gpus: int = 1) -> SlaLimits:
    """The profile's promise for a target on so many GPUs; a machine without one counts as one."""
    return SlaLimits(
        ttft_ms=sla.ttft_ms, tpot_ms=sla.tpot_ms, p99_e2e_s=sla.p99_e2e_s, min_qps=sla.min_qps_per_gpu * max(gpus, 1)
    )


def is_good(outcome: Outcome, sla: SlaLimits) -> bool:
    """Whether it is a whole answer inside the three limits of a single request.

    Without streaming the first token is seen with the last. An answer of one token has no TPOT that could be too long.
    """
    if outcome.failure is not None:
        return False
    ttft_s = outcome.e2e_s if outcome.ttft_s is None else outcome.ttft_s
    return (
        (sla.ttft_ms is None or ttft_s * 1000 <= sla.ttft_ms)
        and (sla.tpot_ms is None or outcome.tpot_s is None or outcome.tpot_s * 1000 <= sla.tpot_ms)
        and (sla.p99_e2e_s is None or outcome.e2e_s <= sla.p99_e2e_s)
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure and its limit, in the unit that `UNITS` has; `measured` is None when nothing was."""

    what: str
    limit: float
    measured: float | None
    kept: bool

    def miss(self) -> SlaMiss:
        """The verdict as the results have it when the limit was not kept."""
        return SlaMiss(what=self.what, limit=self.limit, measured=self.measured, unit=UNITS[self.what])


def judge(result: TargetResult, sla: SlaLimits) -> tuple[Verdict, ...]:
    """One verdict for each limit, in the order of `UNITS`.

    `ttft_ms` and `tpot_ms` are judged at their p95, `p99_e2e_s` at its p99. `min_qps` is held against the goodput: only
    answers inside the SLA keep the promise, so a load that asks for less than `min_qps` cannot show that it is kept.
    Targets whose answers all have one token, or come in one piece, have no TPOT: it is not judged.
    """
    return tuple(_verdicts(result, sla))


def misses(result: TargetResult, sla: SlaLimits) -> tuple[SlaMiss, ...]:
    """The limits that were not kept."""
    return tuple(verdict.miss() for verdict in judge(result, sla) if not verdict.kept)


def _verdicts(result: TargetResult, sla: SlaLimits) -> Iterator[Verdict]:
    if sla.ttft_ms is not None:
        first_token = result.ttft_ms if result.ttft_ms.count else result.e2e_ms
        yield Verdict("ttft_ms", sla.ttft_ms, first_token.p95, _is_within(first_token.p95, sla.ttft_ms))
    if sla.tpot_ms is not None and (result.tpot_ms.count or not result.e2e_ms.count):
        yield Verdict("tpot_ms", sla.tpot_ms, result.tpot_ms.p95, _is_within(result.tpot_ms.p95, sla.tpot_ms))
    if sla.p99_e2e_s is not None:
        p99 = result.e2e_ms.p99
        seconds = None if p99 is None else p99 / 1000
        yield Verdict("p99_e2e_s", sla.p99_e2e_s, seconds, _is_within(p99, sla.p99_e2e_s * 1000))
    if sla.min_qps is not None:
        goodput = result.goodput_per_s
        yield Verdict("min_qps", sla.min_qps, goodput, goodput is not None and goodput >= sla.min_qps)
    percent = 100 * sum(result.failures.values()) / result.requests if result.requests else None
    limit = sla.max_failures_percent
    yield Verdict("max_failures_percent", limit, percent, percent is not None and percent <= limit)


def _is_within(measured_ms: float | None, limit_ms: float) -> bool:
    """Percentiles are the upper ends of their buckets, so the limit is taken as the end of its own."""
    return measured_ms is not None and bucket_of(measured_ms / 1000) <= bucket_of(limit_ms / 1000)
