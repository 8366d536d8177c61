"""Planned cells, and load tests that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loadtest.options import LoadOptions
from loadtest.statistics.records import Record, record_line
from loadtest.statistics.results import TargetResult
from tests.reporting.examples import GIT, MACHINE, SETTINGS, SPEEDS, run_result, target_result
from tools.client.request import Target
from tools.reporting.cells import PlannedCell
from tools.reporting.fingerprint import CellKey, Surroundings

TARGETS = {"v0": "llm_baseline:1", "v2": "llm_bf16:1", "v3": "llm_awq:1", "v4": "llm_eagle:1"}


def planned(rung: str, level: int, repeat: int = 1, *, commit: str | None = GIT.commit) -> PlannedCell:
    surroundings = Surroundings.of(MACHINE, GIT.model_copy(update={"commit": commit}), Path(), isolated=False)
    key = CellKey(
        rung=rung,
        repeat=repeat,
        load=SETTINGS.load("", TARGETS[rung], level, repeat),
        surroundings=surroundings,
        configuration="",
        artifacts={},
    )
    return PlannedCell(rung, Target.parse(TARGETS[rung]), level, repeat, key)


def answered(options: LoadOptions) -> TargetResult:
    """What the example's rungs find."""
    label = next(label for label, target in TARGETS.items() if target == options.targets[0])
    return target_result(SPEEDS[label][options.users], target=options.targets[0])


class FakeLoad:
    """Leaves what a load test leaves, and keeps what it was asked for."""

    def __init__(self, find: Callable[[LoadOptions], TargetResult] = answered) -> None:
        self.asked: list[LoadOptions] = []
        self.workers: list[int] = []
        self._find = find

    def __call__(self, options: LoadOptions, folder: Path, workers: int) -> None:
        self.asked.append(options)
        self.workers.append(workers)
        found = self._find(options)
        (folder / "results.json").write_text(run_result(options, found).model_dump_json(), encoding="utf-8")
        ttft, tpot = found.ttft_ms.p50, found.tpot_ms.p50
        assert ttft is not None
        assert tpot is not None
        line = record_line(Record(found.target, 0.0, ttft, tpot, ttft + 15 * tpot, 16, None))
        (folder / "records.jsonl").write_text(f"{line}\n" * found.requests, encoding="utf-8")
