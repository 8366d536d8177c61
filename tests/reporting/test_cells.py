"""What is kept of a cell, and when its load test counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reporting.examples import run_result, target_result
from tests.reporting.planned import FakeLoad, planned
from tools.reporting.cells import CellRecord, CellResult, CellStore
from tools.reporting.errors import ReportError
from tools.reporting.server_metrics import Drafting

CELL = planned("v2", 8)
SPEEDS = (95.0, 200.0, 80.0)


def test_a_finished_cell_is_read_again(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    assert store.read(CELL) is None
    FakeLoad()(CELL.key.load, store.begin(CELL), 0)
    # Interrupted here, it would not be there.
    assert store.read(CELL) is None
    record = CellRecord(key=CELL.key, state="measured", seconds=9.5, drafting=Drafting(drafts=1, drafted=3, accepted=2))
    store.finish(CELL, record)
    assert store.read(CELL) == record
    assert store.result(CELL).target.output_tokens_per_s == 95
    assert sorted(path.name for path in store.folder(CELL).iterdir()) == ["cell.json", "records.jsonl", "results.json"]


@pytest.mark.parametrize("name", ["results.json", "records.jsonl"])
def test_a_measured_cell_without_its_files_is_not_there(name: str, tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    FakeLoad()(CELL.key.load, store.begin(CELL), 0)
    store.finish(CELL, CellRecord(key=CELL.key, state="measured"))
    (store.folder(CELL) / name).unlink()
    assert store.read(CELL) is None


def test_a_failed_cell_needs_none(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    store.begin(CELL)
    failed = CellRecord(key=CELL.key, state="failed", reason="no server")
    store.finish(CELL, failed)
    assert store.read(CELL) == failed


def test_a_cell_begins_without_what_was_there(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    (store.begin(CELL) / "results.json").write_text("old")
    assert list(store.begin(CELL).iterdir()) == []


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({}, ""),
        (
            {"failures": {"refused": 2, "deadline": 1}, "messages": {"the queue is full": 2, "late": 1}},
            "3 of 8 requests failed (2 refused, 1 deadline): the queue is full",
        ),
        ({"cut": 2}, "2 requests were cut off"),
        ({"ttft_ms": target_result(SPEEDS).ttft_ms.model_copy(update={"count": 0})}, "no request has ttft_ms"),
    ],
)
def test_a_cell_counts_when_every_request_was_answered_whole(change: dict[str, object], trouble: str) -> None:
    assert CellResult(target_result(SPEEDS, **change), False, (), ()).trouble() == trouble


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({"cut": 31}, ""),
        ({"cut": 31, "cut_uncounted": 2}, "2 requests were cut off before the server had counted their tokens"),
        (
            {"cut": 32, "e2e_ms": target_result(SPEEDS).e2e_ms.model_copy(update={"count": 0})},
            "no request has e2e_ms within the time limit of the cell: raise --cell-seconds",
        ),
    ],
)
def test_what_the_time_limit_of_a_cell_cuts_off_counts_by_its_tokens(change: dict[str, object], trouble: str) -> None:
    assert CellResult(target_result(SPEEDS, **change), True, (), ()).trouble() == trouble


def test_whether_a_cell_had_a_time_limit_is_in_its_results(tmp_path: Path) -> None:
    for duration_s in (None, 30.0):
        load = CELL.key.load.model_copy(update={"duration_s": duration_s})
        FakeLoad()(load, tmp_path, 0)
        assert CellResult.read(tmp_path).limited is (duration_s is not None)


def test_a_partial_run_does_not_count() -> None:
    assert CellResult(target_result(SPEEDS), True, (), ("interrupted",)).trouble() == "it is partial: interrupted"


def test_a_load_test_that_left_nothing_or_nonsense_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r'the load test left no "[^"]*results\.json"'):
        CellResult.read(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ReportError, match=r'results\.json" is not what a load test writes: Field required'):
        CellResult.read(tmp_path)
    both = run_result(CELL.key.load, target_result(SPEEDS), target_result(SPEEDS, target="llm_awq:1"))
    (tmp_path / "results.json").write_text(both.model_dump_json())
    with pytest.raises(ReportError, match=r'results\.json" has 2 targets: a cell has one'):
        CellResult.read(tmp_path)
