"""Walking the ladder with load tests that are none: order, resuming, failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadtest.options import LoadOptions
from loadtest.statistics.results import TargetResult
from tests.reporting.planned import FakeLoad, answered, planned
from tools.client.request import Target
from tools.reporting import walk as walk_module
from tools.reporting.cells import CellRecord, CellStore, PlannedCell
from tools.reporting.errors import ReportError
from tools.reporting.server_metrics import Drafting, EngineMetrics
from tools.reporting.walk import Walk, Walked

RUNGS, LEVELS, REPEATS = ("v0", "v2", "v4"), (1, 8), (1, 2)
TURNS = [[planned(rung, level, repeat) for level in LEVELS] for repeat in REPEATS for rung in RUNGS]


class FakeRungs:
    """Serves every rung at its own address; its engines draft with every look at them."""

    def __init__(self, *, broken: str = "") -> None:
        self.served: list[str] = []
        self.ended = 0
        self.warmed = 0
        self.host = ""
        self._looks = 0
        self._broken = broken

    @contextmanager
    def __call__(self, target: Target) -> Iterator[FakeRungs]:
        self.served.append(str(target))
        self.host = f"http://{target.model}:8000"
        try:
            yield self
        finally:
            self.ended += 1

    def warm_up(self) -> None:
        self.warmed += 1
        if self._broken and self._broken in self.host:
            raise ReportError("the warm-up request failed: not ready")

    def metrics(self) -> EngineMetrics:
        self._looks += 1
        drafting = Drafting(drafts=10 * self._looks, drafted=30 * self._looks, accepted=9 * self._looks)
        return EngineMetrics(peak_memory_bytes=1000 + self._looks, drafting=drafting)


class Told:
    """What a walk tells."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.begun: list[tuple[str, int, int, float | None]] = []
        self.ended: list[tuple[str, str]] = []

    def begin(self, cell: PlannedCell, number: int, total: int, left_s: float | None) -> None:
        self.begun.append((cell.name, number, total, left_s))

    def end(self, cell: PlannedCell, record: CellRecord) -> None:
        self.ended.append((cell.name, record.state))

    def say(self, text: str) -> None:
        self.said.append(text)


def walk(
    folder: Path, load: FakeLoad, told: Told | None = None, rungs: FakeRungs | None = None, turns: object = TURNS
) -> Walked:
    assert isinstance(turns, list)
    return Walk(CellStore(folder), rungs or FakeRungs(), load, told or Told()).walk(turns)


def states(walked: Walked) -> dict[str, str]:
    return {cell.name: record.state for cell, record in walked.records.items()}


def test_the_whole_ladder_is_walked_once_a_repeat(tmp_path: Path) -> None:
    load, told, rungs = FakeLoad(), Told(), FakeRungs()
    walked = walk(tmp_path, load, told, rungs)
    names = [f"{rung}-{level}-{repeat}" for repeat in REPEATS for rung in RUNGS for level in LEVELS]
    assert [name for name, *_ in told.begun] == names
    assert set(states(walked).values()) == {"measured"}
    assert rungs.served == ["llm_baseline:1", "llm_bf16:1", "llm_eagle:1"] * 2
    assert (rungs.warmed, rungs.ended) == (6, 6)
    assert {options.host for options in load.asked} == {
        "http://llm_baseline:8000",
        "http://llm_bf16:8000",
        "http://llm_eagle:8000",
    }


def test_the_same_prompts_on_every_rung_and_others_in_every_cell(tmp_path: Path) -> None:
    load = FakeLoad()
    walk(tmp_path, load)
    seeds = {(options.targets[0], options.seed) for options in load.asked}
    assert len(seeds) == len(load.asked)
    assert len({seed for _, seed in seeds}) == len(LEVELS) * len(REPEATS)


def test_what_the_engine_counted_meanwhile_is_kept(tmp_path: Path) -> None:
    walked = walk(tmp_path, FakeLoad())
    record = walked.records[TURNS[0][0]]
    assert record.drafting == Drafting(drafts=10, drafted=30, accepted=9)
    assert record.peak_memory_bytes == 1002


def test_the_time_left_is_told_once_every_level_was_seen(tmp_path: Path) -> None:
    told = Told()
    walk(tmp_path, FakeLoad(), told)
    left = [seconds for *_, seconds in told.begun]
    assert left[:2] == [None, None]
    assert all(seconds is not None for seconds in left[2:])
    assert [(number, total) for _, number, total, _ in told.begun] == [(number, 12) for number in range(1, 13)]


def test_an_interrupted_walk_goes_on_where_it_was(tmp_path: Path) -> None:
    def interrupted_at_the_fifth(options: LoadOptions) -> TargetResult:
        if len(first.asked) == 5:
            raise KeyboardInterrupt
        return answered(options)

    first, rungs = FakeLoad(interrupted_at_the_fifth), FakeRungs()
    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path, first, rungs=rungs)
    assert rungs.ended == len(rungs.served) == 3

    second, told = FakeLoad(), Told()
    walked = walk(tmp_path, second, told)
    assert len(second.asked) == 12 - 4
    assert told.said == ["4 cells are there from an earlier run and are used again"]
    assert len(walked.reused) == 4
    assert told.begun[0][:3] == ("v4-1-1", 1, 8)
    assert len(walked.records) == 12

    third = FakeLoad()
    assert len(walk(tmp_path, third).reused) == 12
    assert third.asked == []


def test_a_turn_that_is_all_there_serves_nothing(tmp_path: Path) -> None:
    walk(tmp_path, FakeLoad(), turns=TURNS[:1])
    rungs = FakeRungs()
    walk(tmp_path, FakeLoad(), rungs=rungs, turns=TURNS[:2])
    assert rungs.served == ["llm_bf16:1"]


def test_cells_of_another_commit_are_measured_again_and_that_is_said(tmp_path: Path) -> None:
    walk(tmp_path, FakeLoad(), turns=[[planned("v2", 1, commit="earlier"), planned("v2", 8, commit="earlier")]])
    load, told = FakeLoad(), Told()
    walked = walk(tmp_path, load, told, turns=[[planned("v2", 1), planned("v2", 8)]])
    assert len(load.asked) == 2
    assert told.said == ["2 cells of an earlier run do not count and are measured again: other git commit"]
    assert walked.stale == {"git commit": 2}


def failing_at(level: int, target: str = "llm_baseline:1") -> FakeLoad:
    def find(options: LoadOptions) -> TargetResult:
        fails = options.targets[0] == target and options.users == level
        changes = {"failures": {"unavailable": 3}, "messages": {"Exceeds maximum queue size": 3}} if fails else {}
        return answered(options).model_copy(update=changes)

    return FakeLoad(find)


def test_a_rung_that_failed_a_level_is_asked_no_higher_one_in_any_repeat(tmp_path: Path) -> None:
    turns = [[planned("v0", level, repeat) for level in (1, 8, 32)] for repeat in (1, 2)]
    load = failing_at(8)
    walked = walk(tmp_path, load, turns=turns)
    assert states(walked) == {
        "v0-1-1": "measured",
        "v0-8-1": "failed",
        "v0-32-1": "skipped",
        "v0-1-2": "measured",
        "v0-8-2": "skipped",
        "v0-32-2": "skipped",
    }
    assert len(load.asked) == 3
    assert walked.records[turns[0][1]].reason == ("3 of 8 requests failed (3 unavailable): Exceeds maximum queue size")
    assert walked.records[turns[1][1]].reason == "not tried, because the rung failed at concurrency 8"


def test_repeats_of_one_turn_are_each_tried_below_the_level_that_failed(tmp_path: Path) -> None:
    # As an isolated rung's are.
    turn = [planned("v0", level, repeat) for repeat in (1, 2) for level in (1, 8)]
    walked = walk(tmp_path, failing_at(8), turns=[turn])
    assert states(walked) == {"v0-1-1": "measured", "v0-8-1": "failed", "v0-1-2": "measured", "v0-8-2": "skipped"}


def test_other_rungs_are_not_held_back(tmp_path: Path) -> None:
    walked = walk(tmp_path, failing_at(1))
    assert {name for name, state in states(walked).items() if state != "measured"} == {
        *("v0-1-1", "v0-8-1", "v0-1-2", "v0-8-2"),
    }


def test_failed_cells_are_tried_again(tmp_path: Path) -> None:
    walk(tmp_path, failing_at(8))
    load = FakeLoad()
    walked = walk(tmp_path, load)
    assert len(load.asked) == 2
    assert set(states(walked).values()) == {"measured"}


def test_a_rung_that_does_not_answer_fails_with_its_reason(tmp_path: Path) -> None:
    rungs, told = FakeRungs(broken="llm_bf16"), Told()
    walked = walk(tmp_path, FakeLoad(), told, rungs)
    failed = {cell.name: record for cell, record in walked.records.items() if cell.rung == "v2"}
    assert {record.state for record in failed.values()} == {"failed", "skipped"}
    assert failed["v2-1-1"].reason == "the warm-up request failed: not ready"
    assert failed["v2-1-2"].reason == "not tried, because the rung failed at concurrency 1"
    assert rungs.served.count("llm_bf16:1") == 1
    assert ("v2-1-1", "failed") in told.ended


def test_a_load_test_that_cannot_run_is_a_failed_cell(tmp_path: Path) -> None:
    class Broken(FakeLoad):
        def __call__(self, options: LoadOptions, folder: Path, workers: int) -> None:
            raise ReportError("the load test ended with code 2: no workload")

    walked = walk(tmp_path, Broken(), turns=[[planned("v2", 1)]])
    assert [record.reason for record in walked.records.values()] == ["the load test ended with code 2: no workload"]


def test_nothing_is_begun_when_the_budget_is_spent(tmp_path: Path) -> None:
    rungs = FakeRungs()
    walked = Walk(CellStore(tmp_path), rungs, FakeLoad(), Told(), budget_s=0.0).walk(TURNS)
    assert set(states(walked).values()) == {"skipped"}
    assert {record.reason for record in walked.records.values()} == {"not tried: the time budget of 0 s was spent"}
    assert rungs.served == []


def test_without_time_a_failure_keeps_its_reason_and_a_figure_stays(tmp_path: Path) -> None:
    walk(tmp_path, FakeLoad(), rungs=FakeRungs(broken="llm_eagle"))
    walked = Walk(CellStore(tmp_path), FakeRungs(), FakeLoad(), Told(), budget_s=0.0).walk(TURNS)
    by_name = {cell.name: record for cell, record in walked.records.items()}
    assert by_name["v2-8-2"].state == "measured"
    assert by_name["v4-1-1"].reason == "the warm-up request failed: not ready"


@pytest.mark.slow
def test_the_budget_ends_between_two_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = FakeLoad()
    monkeypatch.setattr(walk_module.time, "monotonic", lambda: float(len(load.asked)))
    walked = Walk(CellStore(tmp_path), FakeRungs(), load, Told(), budget_s=3.0).walk(TURNS)
    assert sorted(states(walked).values()) == ["measured"] * 3 + ["skipped"] * 9
