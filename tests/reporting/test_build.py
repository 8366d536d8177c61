"""Rungs out of cells."""

from __future__ import annotations

from tests.reporting.examples import CONFIGURATION, RUNGS, V0, V2, V3, V4, cells
from tools.reporting.build import levels_of, rung_reports
from tools.reporting.model import Quality

QUALITY = {facts.label: Quality(text="perplexity 46.0", outside=(), source="eval") for facts in RUNGS}


def test_every_rung_is_held_against_the_one_below() -> None:
    reports = rung_reports(RUNGS, cells(), CONFIGURATION, QUALITY)
    assert [rung.below for rung in reports] == [None, "v0", "v1", "v1b", "v2", "v3"]
    assert [{gain.over for gain in rung.gains} for rung in reports] == [
        set(),
        {"v0"},
        {"v1"},
        {"v1b"},
        {"v2"},
        # Drafts for v2's weights: v3 below it has others.
        {"v3", "v2"},
    ]
    assert [len(rung.levels) for rung in reports] == [3] * 6


def test_the_diff_is_that_to_the_rung_below() -> None:
    reports = {rung.facts.label: rung for rung in rung_reports(RUNGS, cells(), CONFIGURATION, QUALITY)}
    assert reports["v0"].diff == ""
    assert '+  "dtype": "float16",' in reports["v3"].diff
    assert "+++ llm_eagle/1/model.json" in reports["v4"].diff


def test_rungs_that_are_left_out_are_not_below() -> None:
    reports = rung_reports((V0, V2, V4), cells((V0, V2, V4)), CONFIGURATION, QUALITY)
    assert [rung.below for rung in reports] == [None, "v0", "v2"]
    # v2 is both below v4 and has its weights: one comparison.
    assert {gain.over for gain in reports[2].gains} == {"v2"}
    assert "+++ llm_bf16/config.pbtxt" in reports[1].diff


def test_a_rung_without_a_figure_has_neither_levels_nor_gains() -> None:
    failed = [
        cell.model_copy(update={"state": "failed", "figures": None, "peak_memory_bytes": None})
        if cell.rung == "v3"
        else cell
        for cell in cells((V2, V3, V4))
    ]
    reports = rung_reports((V2, V3, V4), failed, CONFIGURATION, QUALITY)
    assert (reports[1].levels, reports[1].gains, reports[1].peak_memory_bytes) == ((), (), None)
    assert {gain.over for gain in reports[2].gains} == {"v2"}


def test_the_peak_is_the_highest_any_cell_saw() -> None:
    made = [cell.model_copy(update={"peak_memory_bytes": 100 + cell.repeat}) for cell in cells((V2,))]
    assert rung_reports((V2,), made, CONFIGURATION, QUALITY)[0].peak_memory_bytes == 103


def test_levels_come_lowest_first_whatever_the_order_of_the_cells() -> None:
    assert list(levels_of("v2", reversed(cells((V2,))))) == [1, 8, 32]
