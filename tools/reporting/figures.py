"""From the cells of a rung to its figures: medians of the repeats, with their spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from loadtest.statistics.results import TargetResult
from tools.benchmark.spread import Spread
from tools.reporting.cells import State
from tools.reporting.server_metrics import Drafting

Figure = Literal["tokens_per_s", "ttft_ms", "tpot_ms", "e2e_ms"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FigureKind(_Record):
    """What a figure is called, and which way is better."""

    name: str
    unit: str
    more_is_better: bool


KINDS: Final[Mapping[Figure, FigureKind]] = {
    "tokens_per_s": FigureKind(name="tokens/s", unit="tokens/s", more_is_better=True),
    "ttft_ms": FigureKind(name="TTFT", unit="ms", more_is_better=False),
    "tpot_ms": FigureKind(name="TPOT", unit="ms", more_is_better=False),
    "e2e_ms": FigureKind(name="end to end", unit="ms", more_is_better=False),
}


class CellFigures(_Record):
    """One cell. Latencies are medians over its requests, in milliseconds, unless they are called otherwise.

    `tokens_per_s`: output tokens of all streams by the time from the first request to the last answer, or to the time
    limit of the cell. `cut`: requests that this limit cut off; `output_tokens` has what they had received, and the
    other figures leave them out.
    """

    tokens_per_s: float
    requests_per_s: float
    ttft_ms: float
    ttft_p95_ms: float
    tpot_ms: float
    tpot_p95_ms: float
    itl_ms: float | None
    e2e_ms: float
    e2e_p95_ms: float
    e2e_p99_ms: float
    requests: int
    output_tokens: int
    input_tokens: int
    cut: int = 0
    cut_output_tokens: int = 0

    @classmethod
    def of(cls, target: TargetResult) -> CellFigures:
        """Raises ValueError for a result without latencies, which a cell that failed has."""
        return cls(
            tokens_per_s=target.output_tokens_per_s,
            requests_per_s=target.requests_per_s,
            ttft_ms=_known(target.ttft_ms.p50),
            ttft_p95_ms=_known(target.ttft_ms.p95),
            tpot_ms=_known(target.tpot_ms.p50),
            tpot_p95_ms=_known(target.tpot_ms.p95),
            itl_ms=target.itl_ms.p50,
            e2e_ms=_known(target.e2e_ms.p50),
            e2e_p95_ms=_known(target.e2e_ms.p95),
            e2e_p99_ms=_known(target.e2e_ms.p99),
            requests=target.requests,
            output_tokens=target.output_tokens,
            input_tokens=target.input_tokens,
            cut=target.cut,
            cut_output_tokens=target.cut_output_tokens,
        )


class Cell(_Record):
    """One cell of the report. `figures` is None unless it was measured, and `reason` says why."""

    rung: str
    level: int
    repeat: int
    folder: str
    state: State
    reason: str = ""
    seconds: float
    reused: bool = False
    figures: CellFigures | None = None
    saturated: tuple[str, ...] = ()
    drafting: Drafting = Drafting()
    peak_memory_bytes: int | None = None


class LevelFigures(_Record):
    """A rung at one concurrency: each figure over the repeats that were measured.

    `of_repeats` says which repeats they are, in the order of every spread's values. `acceptance_length` is None for a
    rung that does not draft. `cut` requests of all repeats met the time limit of their cell, `answered` did not.
    """

    level: int
    of_repeats: tuple[int, ...]
    tokens_per_s: Spread
    requests_per_s: Spread
    ttft_ms: Spread
    ttft_p95_ms: Spread
    tpot_ms: Spread
    tpot_p95_ms: Spread
    e2e_ms: Spread
    e2e_p95_ms: Spread
    e2e_p99_ms: Spread
    acceptance_length: float | None
    acceptance_rate: float | None
    saturated: tuple[str, ...]
    answered: int = 0
    cut: int = 0

    def spread(self, figure: Figure) -> Spread:
        found: Spread = getattr(self, figure)
        return found

    def by_repeat(self, figure: Figure) -> dict[int, float]:
        return dict(zip(self.of_repeats, self.spread(figure).values, strict=True))


def level_figures(cells: Sequence[Cell]) -> LevelFigures | None:
    """The figures of one rung at one level; None where no repeat was measured."""
    measured = sorted((cell for cell in cells if cell.figures is not None), key=lambda cell: cell.repeat)
    if not measured:
        return None
    figures = [cell.figures for cell in measured if cell.figures is not None]
    drafting = sum_of(cell.drafting for cell in measured)

    def over_repeats(get: Callable[[CellFigures], float]) -> Spread:
        return Spread.of([get(figure) for figure in figures])

    return LevelFigures(
        level=measured[0].level,
        of_repeats=tuple(cell.repeat for cell in measured),
        tokens_per_s=over_repeats(lambda cell: cell.tokens_per_s),
        requests_per_s=over_repeats(lambda cell: cell.requests_per_s),
        ttft_ms=over_repeats(lambda cell: cell.ttft_ms),
        ttft_p95_ms=over_repeats(lambda cell: cell.ttft_p95_ms),
        tpot_ms=over_repeats(lambda cell: cell.tpot_ms),
        tpot_p95_ms=over_repeats(lambda cell: cell.tpot_p95_ms),
        e2e_ms=over_repeats(lambda cell: cell.e2e_ms),
        e2e_p95_ms=over_repeats(lambda cell: cell.e2e_p95_ms),
        e2e_p99_ms=over_repeats(lambda cell: cell.e2e_p99_ms),
        acceptance_length=drafting.acceptance_length,
        acceptance_rate=drafting.acceptance_rate,
        saturated=tuple(dict.fromkeys(reason for cell in measured for reason in cell.saturated)),
        answered=sum(figure.requests for figure in figures),
        cut=sum(figure.cut for figure in figures),
    )


def sum_of(counts: Iterable[Drafting]) -> Drafting:
    total = Drafting()
    for count in counts:
        total = total.plus(count)
    return total


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a latency was not measured")
    return value
