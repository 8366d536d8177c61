"""Figures against the thresholds of the profile. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.spec.quality import Quality

from .results import Agreement, Choice, Format, Perplexity, RungResult, Settings, Verdict


@dataclass(frozen=True)
class _Judged:
    """One limit: its key in the profile, and the sentence of a failure. `measured` is False without a figure."""

    limit: str
    measured: bool
    failure: str = ""


def judge(result: RungResult, reference: RungResult, quality: Quality, settings: Settings) -> Verdict | None:
    """What of `quality` the rung misses; None when it sets no limit for this rung.

    Limits against the reference do not apply to the reference itself.
    """
    judged = list(_by_itself(result, quality, settings))
    if result.rung != reference.rung:
        judged += _against(result, reference, quality, settings)
    if not judged:
        return None
    return Verdict(
        failures=tuple(limit.failure for limit in judged if limit.failure),
        not_judged=tuple(limit.limit for limit in judged if not limit.measured),
    )


def perplexity_increase(result: RungResult, reference: RungResult) -> float | None:
    """In percent of the reference's; None where either was not measured."""
    if not isinstance(result.perplexity, Perplexity) or not isinstance(reference.perplexity, Perplexity):
        return None
    return 100 * (result.perplexity.perplexity / reference.perplexity.perplexity - 1)


def accuracy_difference(result: RungResult, reference: RungResult) -> float | None:
    """In percentage points, below 0 where the rung is worse; None where either was not measured."""
    if not isinstance(result.choice, Choice) or not isinstance(reference.choice, Choice):
        return None
    return result.choice.accuracy - reference.choice.accuracy


def _by_itself(result: RungResult, quality: Quality, settings: Settings) -> Iterator[_Judged]:
    # These bars were set on what the project ships, and on all of it.
    if quality.perplexity_max is not None:
        shipped = settings.text is None
        value = result.perplexity.perplexity if isinstance(result.perplexity, Perplexity) and shipped else None
        yield _at_most("perplexity_max", "perplexity", value, quality.perplexity_max, "")
    if quality.choice_accuracy_min_percent is not None:
        whole = settings.mmlu is None and settings.limit is None
        accuracy = result.choice.accuracy if isinstance(result.choice, Choice) and whole else None
        yield _at_least(
            "choice_accuracy_min_percent", "multiple-choice accuracy", accuracy, quality.choice_accuracy_min_percent
        )
    if quality.format_min_percent is not None:
        passed = result.format.passed_percent if isinstance(result.format, Format) else None
        yield _at_least("format_min_percent", "share of format cases passed", passed, quality.format_min_percent)


def _against(result: RungResult, reference: RungResult, quality: Quality, settings: Settings) -> Iterator[_Judged]:
    than = f'against "{reference.rung}"'
    if quality.perplexity_increase_percent is not None:
        increase = perplexity_increase(result, reference)
        limit = quality.perplexity_increase_percent
        yield _at_most("perplexity_increase_percent", f"rise in perplexity {than}", increase, limit, " %")
    if quality.mmlu_loss_points is not None:
        difference = accuracy_difference(result, reference) if settings.mmlu is not None else None
        loss = None if difference is None else -difference
        yield _at_most("mmlu_loss_points", f"loss on MMLU {than}", loss, quality.mmlu_loss_points, " points")
    if quality.agreement_min_percent is not None:
        equal = result.agreement.equal_percent if isinstance(result.agreement, Agreement) else None
        yield _at_least("agreement_min_percent", f"agreement {than}", equal, quality.agreement_min_percent)


def _at_most(limit: str, name: str, value: float | None, most: float, unit: str) -> _Judged:
    if value is None:
        return _Judged(limit, measured=False)
    if value <= most:
        return _Judged(limit, measured=True)
    return _Judged(limit, True, f"{name} is {value:.2f}{unit}, {value - most:.2f} over the limit of {most:g}{unit}")


def _at_least(limit: str, name: str, value: float | None, least: float) -> _Judged:
    if value is None:
        return _Judged(limit, measured=False)
    if value >= least:
        return _Judged(limit, measured=True)
    return _Judged(limit, True, f"{name} is {value:.1f} %, {least - value:.1f} under the limit of {least:g} %")
