"""Figures against thresholds: which limit applies to which rung, and how a miss is worded."""

from __future__ import annotations

from typing import Any

import pytest

from tools.evaluation.results import (
    Agreement,
    Choice,
    Format,
    NotMeasured,
    Perplexity,
    RungResult,
    Settings,
    Suite,
    Verdict,
)
from tools.evaluation.verdict import judge
from tools.spec.quality import Quality

RELATIVE = Quality(perplexity_increase_percent=3.0, mmlu_loss_points=1.0, agreement_min_percent=40.0)
ABSOLUTE = Quality(perplexity_max=30.0, choice_accuracy_min_percent=50.0, format_min_percent=75.0)
SHIPPED = Settings(
    suites=tuple(Suite), text=None, mmlu=None, limit=None, seed=0, window=512, concurrency=1, deadline_s=1.0
)
MMLU = SHIPPED.model_copy(update={"mmlu": "mmlu"})


def rung(name: str, perplexity: float, accuracy: float, passed: float, equal: float) -> RungResult:
    return RungResult(
        rung=name,
        artifact="models/x",
        perplexity=Perplexity(text="shipped", windows=1, tokens=9, loss=1.0, perplexity=perplexity),
        choice=Choice(
            dataset="shipped", questions=9, correct=9, accuracy=accuracy, standard_error=0, unanswered=0, shortened=0,
            subjects={},
        ),
        format=Format(passed_percent=passed, kinds={}),
        agreement=Agreement(prompts=1, identical=0, equal_percent=equal),
    )  # fmt: skip


REFERENCE = rung("llm_bf16:1", 20.0, 60.0, 100.0, 100.0)


def judged(
    result: RungResult, quality: Quality, settings: Settings = MMLU, reference: RungResult = REFERENCE
) -> Verdict:
    verdict = judge(result, reference, quality, settings)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("quality", "figures", "failures"),
    [
        (RELATIVE, (20.5, 59.0, 0.0, 40.0), ()),
        (RELATIVE, (19.0, 70.0, 0.0, 100.0), ()),
        (
            RELATIVE,
            (21.0, 58.5, 0.0, 30.0),
            (
                'rise in perplexity against "llm_bf16:1" is 5.00 %, 2.00 over the limit of 3 %',
                'loss on MMLU against "llm_bf16:1" is 1.50 points, 0.50 over the limit of 1 points',
                'agreement against "llm_bf16:1" is 30.0 %, 10.0 under the limit of 40 %',
            ),
        ),
    ],
)
def test_limits_against_the_reference(quality: Quality, figures: Any, failures: tuple[str, ...]) -> None:
    assert judged(rung("llm_awq:1", *figures), quality) == Verdict(failures=failures, not_judged=())


@pytest.mark.parametrize(
    ("figures", "failures"),
    [
        ((30.0, 50.0, 75.0, 0.0), ()),
        (
            (31.5, 49.0, 70.0, 0.0),
            (
                "perplexity is 31.50, 1.50 over the limit of 30",
                "multiple-choice accuracy is 49.0 %, 1.0 under the limit of 50 %",
                "share of format cases passed is 70.0 %, 5.0 under the limit of 75 %",
            ),
        ),
    ],
)
def test_limits_of_a_rung_by_itself_hold_for_the_reference_too(figures: Any, failures: tuple[str, ...]) -> None:
    result = rung("llm_bf16:1", *figures)
    assert judged(result, ABSOLUTE, SHIPPED, result) == Verdict(failures=failures, not_judged=())


def test_the_reference_has_no_limits_against_itself() -> None:
    assert judge(REFERENCE, REFERENCE, RELATIVE, MMLU) is None


def test_a_profile_without_limits_gives_no_verdict() -> None:
    assert judge(rung("llm_awq:1", 99.0, 0.0, 0.0, 0.0), REFERENCE, Quality(), MMLU) is None


def test_what_was_not_measured_is_not_judged() -> None:
    absent = NotMeasured(not_measured="it cannot")
    result = REFERENCE.model_copy(
        update={"rung": "llm_baseline:1", "perplexity": absent, "choice": absent, "format": absent, "agreement": None}
    )
    assert judged(result, RELATIVE).not_judged == tuple(RELATIVE.model_dump(exclude_none=True))
    assert judged(result, ABSOLUTE, SHIPPED).not_judged == tuple(ABSOLUTE.model_dump(exclude_none=True))


def test_a_loss_on_the_small_set_says_nothing_about_mmlu() -> None:
    assert judged(rung("llm_awq:1", 20.0, 0.0, 100.0, 100.0), RELATIVE, SHIPPED) == Verdict(
        failures=(), not_judged=("mmlu_loss_points",)
    )


@pytest.mark.parametrize(
    ("changes", "not_judged"),
    [
        ({"text": "mine.txt"}, ("perplexity_max",)),
        ({"mmlu": "mmlu"}, ("choice_accuracy_min_percent",)),
        ({"limit": 3}, ("choice_accuracy_min_percent",)),
    ],
)
def test_bars_set_on_the_shipped_sets_do_not_judge_other_sets(
    changes: dict[str, Any], not_judged: tuple[str, ...]
) -> None:
    settings = SHIPPED.model_copy(update=changes)
    assert judged(rung("llm_awq:1", 99.0, 0.0, 80.0, 0.0), ABSOLUTE, settings).not_judged == not_judged
