"""Is the new version worse than the stable one? Pure: what both did in the same window in, findings out.

Five criteria are judged, and each of them again and again while a step lasts. So that looking often does not turn a
good version away, the plan's error (1 - confidence) is spent over looks and criteria: look k of a step may be wrong
with probability error / (k (k + 1)), which add up to the error (alpha spending: Lan and DeMets, Biometrika 70, 1983),
and each criterion with a fifth of that (Bonferroni). The looks come when the canary's ended requests have doubled, and
at the end of the bake.

What is worse than its margin with that confidence is WORSE. What only looks worse than its margin is UNSURE: there it
takes more requests before the step can be left. The error rate is judged from the fifth request on, since nobody has to
watch a version fail 50 requests out of 50; the rest waits for the plan's number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .intervals import critical_value, least_quantile_ratio, least_rise, quantile, relative_error
from .observation import Counts, Histogram
from .plan import Plan

FIRST_LOOK: Final = 5
_QUANTILE: Final = 0.95


class Verdict(StrEnum):
    """The gravest first: WORSE ends the release, TOO_FEW and UNSURE keep it where it is, the others let it go on."""

    WORSE = "worse"
    TOO_FEW = "too few"
    UNSURE = "unsure"
    FINE = "fine"
    ABSENT = "absent"


_GRAVITY: Final = {verdict: -place for place, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One criterion. `canary` and `stable` are what was measured, in `unit`; None where nothing was.

    `change` is how much worse the canary looks, `least` how much worse it is with confidence, and `margin` what is
    allowed; all three in `margin_unit`.
    """

    criterion: str
    verdict: Verdict
    unit: str
    canary: float | None = None
    stable: float | None = None
    change: float = 0.0
    least: float = 0.0
    margin: float = 0.0
    margin_unit: str = "%"
    detail: str = ""

    def __str__(self) -> str:
        if self.canary is None or self.stable is None:
            return f"{self.criterion}: {self.detail or 'nothing to compare'}"
        detail = f" ({self.detail})" if self.detail else ""
        return (
            f"{self.criterion}{detail} {self.canary:.4g} {self.unit} against {self.stable:.4g} {self.unit}: "
            f"{self.change:+.3g} {self.margin_unit}, with confidence {self.least:+.3g} {self.margin_unit} or more; "
            f"allowed are {self.margin:+g} {self.margin_unit}"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one look found. `missing` are the ended requests that the canary and the stable target still need."""

    findings: tuple[Finding, ...]
    missing_canary: int
    missing_stable: int

    @property
    def verdict(self) -> Verdict:
        """The gravest of the findings'."""
        return max((finding.verdict for finding in self.findings), key=_GRAVITY.__getitem__)

    def of(self, verdict: Verdict) -> str:
        """The findings with this verdict, as a sentence."""
        return "; ".join(str(finding) for finding in self.findings if finding.verdict is verdict)


def looks_at(look: int) -> int:
    """Ended requests of the canary at which look 1, 2, ... of a step is due."""
    return FIRST_LOOK << (look - 1)


def judge(plan: Plan, canary: Counts, stable: Counts, look: int, alone: Counts | None = None) -> Judgement:
    """The findings of look 1, 2, ... of a step.

    Where the stable version had no requests, as may be when few users stick, errors are compared with what it did
    `alone`: a canary that fails everything must not go on failing it for want of a comparison.
    """
    z = critical_value((1 - plan.confidence) / (look * (look + 1)) / len(_CRITERIA))
    compared = stable if stable.ended or alone is None else alone
    findings = tuple(
        criterion(plan, canary, compared if criterion is _errors else stable, z) for criterion in _CRITERIA
    )
    return Judgement(findings, max(0, plan.min_requests - canary.ended), max(0, plan.min_requests - stable.ended))


def _errors(plan: Plan, canary: Counts, stable: Counts, z: float) -> Finding:
    margin = plan.margins.error_rate_points
    rates = [100 * counts.failed / counts.ended if counts.ended else None for counts in (canary, stable)]
    enough = min(canary.ended, stable.ended) >= plan.min_requests
    if canary.ended < FIRST_LOOK or rates[0] is None or rates[1] is None:
        return Finding(
            "error rate", Verdict.TOO_FEW, "%", detail="too few requests", margin=margin, margin_unit="points"
        )
    change = rates[0] - rates[1]
    least = 100 * least_rise((canary.failed, stable.failed), (canary.ended, stable.ended), z)
    reasons = ", ".join(f"{name} {count}" for name, count in sorted(canary.errors.items()))
    return Finding(
        "error rate", _verdict(change, least, margin, enough=enough), "%", rates[0], rates[1], change, least, margin,
        "points", reasons,
    )  # fmt: skip


def _ttft(plan: Plan, canary: Counts, stable: Counts, z: float) -> Finding:
    return _latency("TTFT p95", plan.margins.ttft_p95_percent, plan, (canary, canary.ttft), (stable, stable.ttft), z)


def _itl(plan: Plan, canary: Counts, stable: Counts, z: float) -> Finding:
    return _latency("ITL p95", plan.margins.itl_p95_percent, plan, (canary, canary.itl), (stable, stable.itl), z)


def _latency(
    criterion: str, margin: float, plan: Plan, canary: tuple[Counts, Histogram], stable: tuple[Counts, Histogram],
    z: float,
) -> Finding:  # fmt: skip
    (canary_counts, canary_times), (stable_counts, stable_times) = canary, stable
    if untimed := _untimed(plan, canary, stable):
        return Finding(criterion, Verdict.ABSENT, "s", detail=f"not judged, {untimed}", margin=margin)
    # Steps of one stream hang together, so that a stream counts once, however many steps it has.
    sizes = min(canary_counts.streams, canary_times.total), min(stable_counts.streams, stable_times.total)
    if min(sizes) < plan.min_requests:
        return Finding(criterion, Verdict.TOO_FEW, "s", detail="too few streamed requests", margin=margin)
    looks, least = least_quantile_ratio(canary_times, stable_times, _QUANTILE, sizes, z)
    change, least = 100 * (looks - 1), 100 * (least - 1)
    return Finding(
        criterion, _verdict(change, least, margin), "s", quantile(canary_times, _QUANTILE),
        quantile(stable_times, _QUANTILE), change, least, margin, "%",
    )  # fmt: skip


def _untimed(plan: Plan, canary: tuple[Counts, Histogram], stable: tuple[Counts, Histogram]) -> str:
    """Why there is nothing to compare, however long one waits; empty when there is, or may be."""
    targets = (("canary", *canary), ("stable version", *stable))
    enough_ended = all(counts.ended >= plan.min_requests for _, counts, _ in targets)
    enough_streams = all(counts.streams >= plan.min_requests for _, counts, _ in targets)
    for name, counts, times in targets:
        if enough_ended and not counts.streams:
            return f"the {name} had no streamed request"
        if enough_streams and not times.total:
            return f"no stream of the {name} had a second token"
    return ""


def _output_length(plan: Plan, canary: Counts, stable: Counts, z: float) -> Finding:
    margin = plan.margins.output_tokens_percent
    lengths = canary.output_tokens, stable.output_tokens
    if min(length.total for length in lengths) < plan.min_requests:
        return Finding("output length", Verdict.TOO_FEW, "tokens", detail="too few answers", margin=margin)
    means = [length.sum / length.total for length in lengths]
    if not min(means):
        same = means[0] == means[1]
        return Finding(
            "output length", Verdict.FINE if same else Verdict.WORSE, "tokens", means[0], means[1],
            0.0 if same else math.inf, 0.0 if same else math.inf, margin,
        )  # fmt: skip
    # In both directions, on the scale of logarithms: twice as long is as far off as half as long.
    distance = abs(math.log(means[0] / means[1]))
    error = math.hypot(*map(relative_error, lengths))
    change, least = (100 * (math.exp(value) - 1) for value in (distance, distance - _two_sided(z) * error))
    return Finding(
        "output length", _verdict(change, least, margin), "tokens", means[0], means[1], change, least, margin
    )


def _finish_reasons(plan: Plan, canary: Counts, stable: Counts, z: float) -> Finding:
    margin = plan.margins.finish_reasons_points
    totals = sum(canary.finished.values()), sum(stable.finished.values())
    if min(totals) < plan.min_requests:
        return Finding(
            "finish reasons", Verdict.TOO_FEW, "%", detail="too few answers", margin=margin, margin_unit="points"
        )
    reasons = sorted({*canary.finished, *stable.finished})
    # Each reason, both ways.
    z = critical_value(_error_of(z) / (2 * len(reasons)))
    found = []
    for reason in reasons:
        counts = canary.finished.get(reason, 0), stable.finished.get(reason, 0)
        shares = [100 * count / total for count, total in zip(counts, totals, strict=True)]
        least = 100 * max(least_rise(counts, totals, z), least_rise(counts[::-1], totals[::-1], z))
        change = abs(shares[0] - shares[1])
        verdict = _verdict(change, least, margin)
        found.append(
            Finding("finish reasons", verdict, "%", shares[0], shares[1], change, least, margin, "points", reason)
        )
    return max(found, key=lambda finding: (_GRAVITY[finding.verdict], finding.least))


_CRITERIA: Final[tuple[Callable[[Plan, Counts, Counts, float], Finding], ...]] = (
    _errors, _ttft, _itl, _output_length, _finish_reasons,
)  # fmt: skip


def _verdict(change: float, least: float, margin: float, *, enough: bool = True) -> Verdict:
    if least > margin:
        return Verdict.WORSE
    if not enough:
        return Verdict.TOO_FEW
    return Verdict.UNSURE if change > margin else Verdict.FINE


def _error_of(z: float) -> float:
    """The error that goes with a critical value."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def _two_sided(z: float) -> float:
    return critical_value(_error_of(z) / 2)
