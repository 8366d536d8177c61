"""The cells of a report, each one load test of one rung, and what is kept of them on the disk.

    REPORT/cells/v2-8-1/cell.json       key, state, what the server counted
    REPORT/cells/v2-8-1/results.json    the load test's figures
    REPORT/cells/v2-8-1/records.jsonl   its single requests
    REPORT/cells/v2-8-1/locust.log      what it said

A folder counts once its cell.json is there, which is written last.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from loadtest.statistics.results import RunResult, TargetResult
from tools.bootstrap.whole_file import whole_file
from tools.client.request import Target
from tools.reporting.errors import ReportError
from tools.reporting.fingerprint import CellKey
from tools.reporting.records import RECORDS
from tools.reporting.server_metrics import Drafting

CELLS: Final = "cells"
RESULTS: Final = "results.json"
LOG: Final = "locust.log"
_CELL: Final = "cell.json"

State = Literal["measured", "failed", "skipped"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CellRecord(_Record):
    """What is known of a cell beside its load test's own files.

    Attributes:
        reason: why there is no figure; empty for a measured cell.
        seconds: of the wall clock, with the start of the load test.
        drafting: what the engine counted meanwhile; peak_memory_bytes: the most it had held by the end.
    """

    key: CellKey
    state: State
    reason: str = ""
    seconds: float = 0.0
    drafting: Drafting = Drafting()
    peak_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell that the report needs. Its place in the report makes it what it is; its key says which figures fit it."""

    rung: str
    target: Target
    level: int
    repeat: int
    key: CellKey = field(compare=False)

    @property
    def name(self) -> str:
        return f"{self.rung}-{self.level}-{self.repeat}"

    def text(self) -> str:
        streams = "1 stream" if self.level == 1 else f"{self.level} streams"
        return f"{self.rung} {self.target}, {streams}, repeat {self.repeat}"


class CellStore:
    """The cells below a report's folder."""

    def __init__(self, report: Path) -> None:
        self._root = report / CELLS

    def folder(self, cell: PlannedCell) -> Path:
        return self._root / cell.name

    def read(self, cell: PlannedCell) -> CellRecord | None:
        """What was recorded in the cell's place, whatever its key; None when there is nothing whole."""
        folder = self.folder(cell)
        try:
            record = CellRecord.model_validate_json((folder / _CELL).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError):
            return None
        whole = record.state != "measured" or all((folder / name).is_file() for name in (RESULTS, RECORDS))
        return record if whole else None

    def begin(self, cell: PlannedCell) -> Path:
        """An empty folder for the cell; what was there is gone."""
        folder = self.folder(cell)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def finish(self, cell: PlannedCell, record: CellRecord) -> None:
        with whole_file(self.folder(cell) / _CELL) as draft:
            draft.write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")

    def result(self, cell: PlannedCell) -> CellResult:
        """The load test's figures of a measured cell. Raises ReportError for a file that is damaged."""
        return CellResult.read(self.folder(cell))


@dataclass(frozen=True, slots=True)
class CellResult:
    """The one target of a cell's load test, and whether the client kept up.

    `limited`: the load test had a time limit, so that cutting requests off belongs to it.
    """

    target: TargetResult
    limited: bool
    saturated: tuple[str, ...]
    partial: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ReportError when there is no such file, or something else in it."""
        file = folder / RESULTS
        try:
            result = RunResult.model_validate_json(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ReportError(f'the load test left no "{file}" ({error})') from None
        except ValidationError as error:
            raise ReportError(f'"{file}" is not what a load test writes: {error.errors()[0]["msg"]}') from None
        if len(result.targets) != 1:
            raise ReportError(f'"{file}" has {len(result.targets)} targets: a cell has one')
        limited = result.options.duration_s is not None
        return cls(result.targets[0], limited, result.client.saturated, result.partial)

    def trouble(self) -> str:
        """Why its figures stand for nothing; empty when every request was answered whole, or cut off by the limit with
        its tokens counted.
        """
        target = self.target
        if self.partial:
            return f"it is partial: {'; '.join(self.partial)}"
        if target.failures:
            kinds = ", ".join(f"{count} {kind}" for kind, count in target.failures.items())
            message = next(iter(target.messages), "")
            said = f": {message}" if message else ""
            return f"{sum(target.failures.values())} of {target.requests} requests failed ({kinds}){said}"
        if target.cut and not self.limited:
            return f"{target.cut} requests were cut off"
        if target.cut_uncounted:
            return f"{target.cut_uncounted} requests were cut off before the server had counted their tokens"
        missing = [name for name in ("ttft_ms", "tpot_ms", "e2e_ms") if not getattr(target, name).count]
        if missing:
            limit = " within the time limit of the cell: raise --cell-seconds" if target.cut else ""
            return f"no request has {', '.join(missing)}{limit}"
        return ""
