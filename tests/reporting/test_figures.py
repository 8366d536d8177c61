"""From cells to figures."""

from __future__ import annotations

import pytest

from tests.reporting.examples import cell, target_result
from tools.reporting.figures import CellFigures, level_figures, sum_of
from tools.reporting.server_metrics import Drafting


def test_a_cells_figures_are_the_load_tests() -> None:
    found = CellFigures.of(target_result((95.0, 200.0, 80.0)))
    assert (found.tokens_per_s, found.ttft_ms, found.tpot_ms, found.e2e_ms) == (95, 200, 80, 1400)
    assert (found.ttft_p95_ms, found.e2e_p99_ms) == (240, 1820)


def test_a_result_without_latencies_has_no_figures() -> None:
    nothing = target_result((95.0, 200.0, 80.0)).ttft_ms.model_copy(update={"p50": None})
    with pytest.raises(ValueError, match="a latency was not measured"):
        CellFigures.of(target_result((95.0, 200.0, 80.0), ttft_ms=nothing))


def test_medians_over_repeats_with_their_spread() -> None:
    cells = [cell("v2", 8, repeat, (speed, 200.0, 80.0)) for repeat, speed in ((3, 90.0), (1, 100.0), (2, 94.0))]
    found = level_figures(cells)
    assert found is not None
    assert found.of_repeats == (1, 2, 3)
    assert (found.tokens_per_s.median, found.tokens_per_s.low, found.tokens_per_s.high) == (94, 90, 100)
    assert found.by_repeat("tokens_per_s") == {1: 100.0, 2: 94.0, 3: 90.0}


def test_a_failed_repeat_is_left_out_and_all_failed_is_no_figure() -> None:
    good = cell("v2", 8, 1, (95.0, 200.0, 80.0), saturated=("it lagged",))
    failed = cell("v2", 8, 2, (95.0, 200.0, 80.0), state="failed", figures=None)
    found = level_figures([good, failed])
    assert found is not None
    assert found.of_repeats == (1,)
    assert found.saturated == ("it lagged",)
    assert level_figures([failed]) is None


def test_what_a_time_limit_cut_off_is_added_up_over_repeats() -> None:
    result = target_result((16.0, 90.0, 60.0), requests=3, cut=31, cut_output_tokens=12, output_tokens=60)
    found = CellFigures.of(result)
    assert (found.requests, found.cut, found.output_tokens, found.cut_output_tokens) == (3, 31, 60, 12)
    both = level_figures([cell("v0", 32, repeat, (16.0, 90.0, 60.0), figures=found) for repeat in (1, 2)])
    assert both is not None
    assert (both.answered, both.cut) == (6, 62)


def test_drafts_are_added_up_over_repeats() -> None:
    counts = [Drafting(drafts=100, drafted=300, accepted=50), Drafting(drafts=300, drafted=900, accepted=350)]
    cells = [cell("v4", 1, repeat, (30.0, 75.0, 31.0), drafting=count) for repeat, count in enumerate(counts, start=1)]
    found = level_figures(cells)
    assert found is not None
    assert found.acceptance_length == 2.0
    assert found.acceptance_rate == pytest.approx(1 / 3)
    assert sum_of([]) == Drafting()
