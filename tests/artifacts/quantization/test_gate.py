from __future__ import annotations

import math

import pytest

from tools.artifacts.manifest import Losses
from tools.artifacts.quantization.gate import judge
from tools.spec.model import QualityBar

SHARE = QualityBar(max_share_of_rounding=0.5)
INCREASE = QualityBar(max_perplexity_increase=0.03)


def losses(original: float, rounded: float, quantized: float) -> Losses:
    return Losses(heldout_sha256="0", tokens=1, original=original, rounded=rounded, quantized=quantized)


def test_less_than_half_of_what_rounding_costs_is_passed_with_the_figures() -> None:
    gate = judge(losses(2.15, 2.37, 2.23), SHARE)
    assert gate.passed
    assert gate.reasons == (
        "held-out perplexity 8.58 became 9.30: +0.72, allowed are +1.06, 50% of what rounding to nearest costs "
        "(it gives 10.70)",
    )


def test_what_stock_autoawq_writes_on_cpu_is_refused() -> None:
    gate = judge(losses(2.15, 2.37, 12.75), SHARE)
    assert not gate.passed
    assert gate.reasons[0].startswith("held-out perplexity 8.58 became 344551.90: +344543.31, allowed are +1.06")


def test_rounding_itself_is_refused() -> None:
    assert not judge(losses(2.15, 2.37, 2.37), SHARE).passed


@pytest.mark.parametrize(("quantized", "passed"), [(2.0, True), (2.02, True), (2.04, False)])
def test_a_bound_on_the_increase(quantized: float, passed: bool) -> None:
    assert judge(losses(2.0, 2.5, quantized), INCREASE).passed is passed


def test_both_bounds_must_be_kept() -> None:
    both = QualityBar(max_share_of_rounding=0.5, max_perplexity_increase=0.03)
    gate = judge(losses(2.0, 2.5, 2.1), both)
    assert not gate.passed
    assert len(gate.reasons) == 2
    assert gate.reasons[1] == "held-out perplexity 7.39 became 8.17: +10.5%, allowed are +3.0%"


@pytest.mark.parametrize("loss", [math.inf, math.nan, 1e6])
def test_what_is_no_number_is_refused(loss: float) -> None:
    assert not judge(losses(2.0, 2.5, loss), SHARE).passed


def test_where_rounding_costs_nothing_only_no_loss_is_passed() -> None:
    assert judge(losses(2.0, 1.9, 2.0), SHARE).passed
    assert not judge(losses(2.0, 1.9, 2.01), SHARE).passed
