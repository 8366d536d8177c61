from __future__ import annotations

import random

import pytest

from loadtest.options import SlaLimits
from loadtest.webui.chart_data import distribution, distributions, marks, over_time, targets
from tests.loadtest.webui.runs import answer, failure, options, run_of, two_targets


def test_a_distribution_climbs_from_its_smallest_to_its_largest_value() -> None:
    outcomes = [answer("llm_bf16", at, ttft_s=(at + 1) / 100) for at in range(100)]
    result, _ = run_of(outcomes, options=options(targets=("llm_bf16",)))
    curve = distribution(result.targets[0].histograms["ttft"])
    assert curve["ms"] == sorted(curve["ms"])
    assert curve["share"] == sorted(curve["share"])
    assert (curve["ms"][0], curve["share"][0]) == (pytest.approx(10, rel=1e-3), 0.005)
    assert (curve["ms"][-1], curve["share"][-1]) == (pytest.approx(1000, rel=1e-3), 0.995)
    at_median = curve["share"].index(0.495)
    assert curve["ms"][at_median] == pytest.approx(result.targets[0].ttft_ms.p50, rel=1e-3)


@pytest.mark.slow
def test_thousands_of_values_become_a_few_hundred_points_and_the_tail_stays() -> None:
    draw = random.Random(1)
    outcomes = [answer("llm_bf16", at / 100, ttft_s=draw.expovariate(2)) for at in range(5000)]
    outcomes.append(answer("llm_bf16", 50.0, ttft_s=60.0))
    result, _ = run_of(outcomes, options=options(targets=("llm_bf16",)))
    curve = distribution(result.targets[0].histograms["ttft"])
    assert 200 < len(curve["ms"]) < 500
    assert curve["ms"][-1] == pytest.approx(60_000, rel=1e-3)
    assert curve["share"][-1] == pytest.approx(1 - 0.5 / 5001)


def test_a_target_without_answers_has_no_points() -> None:
    result, _ = run_of([failure("llm_bf16", 1.0, "no"), answer("llm_awq", 1.0)])
    curves = distributions(result)["ttft"]
    assert curves["llm_bf16"] == {"ms": [], "share": []}
    assert curves["llm_awq"]["share"] == [0.5]


def test_results_without_histograms_have_no_distributions() -> None:
    result, _ = run_of(two_targets())
    bare = [target.model_copy(update={"histograms": {}}) for target in result.targets]
    assert distributions(result.model_copy(update={"targets": tuple(bare)})) == {
        "ttft": {}, "tpot": {}, "itl": {}, "e2e": {},
    }  # fmt: skip


def test_the_timeline_becomes_columns_of_one_length() -> None:
    _, timeline = run_of([answer("llm_bf16", 0.0, ttft_s=0.25), answer("llm_bf16", 2.0, ttft_s=0.35)])
    columns = over_time(timeline)["llm_bf16"]
    assert {len(values) for values in columns.values()} == {3}
    assert columns["second"] == [0, 1, 2]
    assert columns["requests"] == [1, 0, 1]
    assert columns["ttft_p50_ms"] == [pytest.approx(250, rel=1e-3), None, pytest.approx(350, rel=1e-3)]


def test_limits_are_marked_in_milliseconds() -> None:
    result, _ = run_of([], options=options(warmup_s=5.0), sla=SlaLimits(ttft_ms=500, p99_e2e_s=4))
    assert marks(result) == {"warmup_s": 5.0, "limits_ms": {"ttft": 500, "tpot": None, "e2e": 4000}}
    assert marks(run_of([])[0]) == {"warmup_s": 0.0, "limits_ms": {}}


def test_targets_bring_the_number_of_their_colour() -> None:
    assert targets(("b", "a")) == [{"name": "b", "color": 0}, {"name": "a", "color": 1}]
