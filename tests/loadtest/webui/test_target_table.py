from __future__ import annotations

import pytest

from loadtest.options import SlaLimits
from loadtest.webui.target_table import COLUMNS, color_of, figure_text, headings, rows, tab_rows
from tests.loadtest.webui.runs import answer, failure, options, run_of


def test_a_row_holds_the_figures_in_the_order_of_the_columns() -> None:
    result, _ = run_of(
        [answer("llm_bf16", 1.0, ttft_s=0.25, tokens=11, itl_s=0.02), failure("llm_bf16", 1.2, "no")],
        options=options(targets=("llm_bf16",)),
        sla=SlaLimits(ttft_ms=300),
    )
    (row,) = tab_rows(result.targets)
    assert row["name"] == "llm_bf16"
    assert (row["requests"], row["failures"], row["in_sla"]) == (2, 1, 50.0)
    assert (row["ttft_p50"], row["tpot_p95"], row["e2e_p99"], row["output_tokens"]) == (250, 20, 450, 11)
    assert list(row) == ["name", *(column.key for column in COLUMNS)]


def test_what_was_not_measured_is_no_zero() -> None:
    result, _ = run_of([failure("llm_bf16", 1.0, "no")], options=options(targets=("llm_bf16",)))
    (row,) = tab_rows(result.targets)
    assert row["ttft_p50"] is None
    assert row["in_sla"] is None
    (shown,) = rows(result.targets, ("llm_bf16",))
    assert shown.cells[2:5] == ("–", "–", "–")


def test_the_digits_of_a_column_line_up() -> None:
    outcomes = [answer("llm_bf16", 1.0, itl_s=0.1), answer("llm_awq", 1.0, itl_s=0.00512)]
    result, _ = run_of(outcomes)
    tpot = [column.key for column in COLUMNS].index("tpot_p50")
    cells = [row.cells[tpot] for row in rows(result.targets, result.options.targets)]
    assert [float(cell) for cell in cells] == pytest.approx([100, 5.12], rel=1e-3)
    assert [len(cell.partition(".")[2]) for cell in cells] == [2, 2]


def test_figures_have_three_digits_or_all_those_before_the_point() -> None:
    assert [figure_text(figure) for figure in (3.761, 29.64, 512.4, 12345.6, 7, 0.0, None)] == [
        "3.76", "29.6", "512", "12,346", "7", "0", "–",
    ]  # fmt: skip


def test_a_target_keeps_its_colour_whatever_stands_beside_it() -> None:
    order = ("llm_baseline", "llm_bf16", "llm_awq:1")
    result, _ = run_of([answer("llm_awq:1", 1.0)], options=options(targets=order))
    assert [row.color for row in rows(result.targets[2:], order)] == [2]
    assert [color_of(target, order) for target in order] == [0, 1, 2]
    assert color_of("llm_other", order) == 3


def test_columns_of_a_group_stand_under_one_heading() -> None:
    assert [(heading.group, heading.unit, heading.titles) for heading in headings()][2:4] == [
        ("In SLA", "%", ("",)),
        ("TTFT", "ms", ("p50", "p95")),
    ]
    assert sum(len(heading.titles) for heading in headings()) == len(COLUMNS)
    assert [column.heading for column in COLUMNS[2:4]] == ["In SLA (%)", "TTFT p50 (ms)"]
