"""From cells to rungs: figures, gains, diffs and findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from tools.reporting.config_diff import config_diff
from tools.reporting.figures import Cell, LevelFigures, level_figures
from tools.reporting.findings import findings_of
from tools.reporting.gains import gains
from tools.reporting.model import Quality, RungReport
from tools.reporting.rungs import ModelSizes, RungFacts, same_weights_below
from tools.reporting.step import Comparison, Levels, Step


@dataclass(frozen=True, slots=True)
class Configuration:
    """What of the profile the findings need. `files` are those it renders to; `context` is prompt and answer."""

    accelerator: Literal["cpu", "cuda"]
    sizes: ModelSizes | None
    context: int
    files: Mapping[PurePosixPath, str]


def rung_reports(
    rungs: Sequence[RungFacts], cells: Sequence[Cell], configuration: Configuration, quality: Mapping[str, Quality]
) -> tuple[RungReport, ...]:
    """One report a rung, in the order of `rungs`, lowest first; `quality` is by the rung's label."""
    levels = {facts.label: levels_of(facts.label, cells) for facts in rungs}
    reports = []
    for number, facts in enumerate(rungs):
        below = rungs[number - 1] if number else None
        step = _step(facts, below, rungs, levels, configuration)
        compared = [comparison for comparison in (step.below, step.alike) if comparison is not None]
        reports.append(
            RungReport(
                facts=facts,
                levels=tuple(step.levels.values()),
                peak_memory_bytes=_peak(cell for cell in cells if cell.rung == facts.label),
                quality=quality[facts.label],
                below=below.label if below is not None else None,
                gains=tuple(gain for comparison in compared for gain in comparison.gains),
                diff=_diff(below, facts, configuration),
                findings=tuple(findings_of(step)),
            )
        )
    return tuple(reports)


def levels_of(rung: str, cells: Iterable[Cell]) -> dict[int, LevelFigures]:
    """The levels at which a rung was measured, lowest first."""
    by_level: dict[int, list[Cell]] = {}
    for cell in cells:
        if cell.rung == rung:
            by_level.setdefault(cell.level, []).append(cell)
    found = {level: level_figures(of_level) for level, of_level in sorted(by_level.items())}
    return {level: figures for level, figures in found.items() if figures is not None}


def _step(
    facts: RungFacts,
    below: RungFacts | None,
    rungs: Sequence[RungFacts],
    levels: Mapping[str, Levels],
    configuration: Configuration,
) -> Step:
    def compared(other: RungFacts | None) -> Comparison | None:
        if other is None:
            return None
        return Comparison(
            other, levels[other.label], tuple(gains(levels[facts.label], levels[other.label], other.label))
        )

    alike = same_weights_below(facts, rungs)
    return Step(
        accelerator=configuration.accelerator,
        sizes=configuration.sizes,
        context=configuration.context,
        facts=facts,
        levels=levels[facts.label],
        below=compared(below),
        alike=compared(alike if alike != below else None),
    )


def _diff(below: RungFacts | None, facts: RungFacts, configuration: Configuration) -> str:
    if below is None:
        return ""
    return config_diff(below.parsed_target, facts.parsed_target, configuration.files)


def _peak(cells: Iterable[Cell]) -> int | None:
    return max((cell.peak_memory_bytes for cell in cells if cell.peak_memory_bytes is not None), default=None)
