"""The report as data: what report.json holds, and all that report.md and report.html are written from."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tools.benchmark.machine import Machine
from tools.evaluation.results import GitState
from tools.reporting.figures import Cell, LevelFigures
from tools.reporting.findings import Finding
from tools.reporting.gains import Gain
from tools.reporting.rungs import ModelSizes, RungFacts
from tools.reporting.settings import Settings


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quality(_Record):
    """How good a rung's answers are. `outside`: the limits it missed; None where it was never judged.

    `text` is a few words with the figures there are; `source` says where they are from.
    """

    text: str
    outside: tuple[str, ...] | None
    source: str


class RungReport(_Record):
    """One rung.

    Attributes:
        levels: lowest first; a level that was not measured is missing, and its cells say why.
        gains: over the rung below, then over the same weights without drafts where that is another rung.
        diff: of the rendered configuration, against the rung below; empty for the lowest.
        peak_memory_bytes: the most the engine had held by the end; None where the server does not say.
    """

    facts: RungFacts
    levels: tuple[LevelFigures, ...]
    peak_memory_bytes: int | None
    quality: Quality
    below: str | None
    gains: tuple[Gain, ...]
    diff: str
    findings: tuple[Finding, ...]

    def level(self, concurrency: int) -> LevelFigures | None:
        return next((figures for figures in self.levels if figures.level == concurrency), None)


class Report(_Record):
    """A whole report.

    Attributes:
        command: makes it again, with the commit checked out.
        seconds: of all cells together, those of earlier runs as well.
        stale: cells of earlier runs that were measured again, and why.
        sizes: of the model; None where nothing states them.
    """

    format: Literal[1] = 1
    started_at: datetime
    seconds: float
    command: str
    profile: str
    model: str
    accelerator: Literal["cpu", "cuda"]
    sizes: ModelSizes | None
    settings: Settings
    machine: Machine
    git: GitState
    stale: dict[str, int]
    rungs: tuple[RungReport, ...]
    cells: tuple[Cell, ...]

    @property
    def unmeasured(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.state != "measured"]

    def cells_of(self, rung: str, level: int) -> list[Cell]:
        return [cell for cell in self.cells if (cell.rung, cell.level) == (rung, level)]
