"""One row of figures per target: what the tab of Locust's web UI, the live page and the report show alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from loadtest.statistics.results import TargetResult

Figure = float | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a target. Columns that share a `group` stand under one heading; `unit` belongs to the group."""

    key: str
    group: str
    title: str
    unit: str
    value: Callable[[TargetResult], Figure]

    @property
    def heading(self) -> str:
        """Group, title and unit in one line, for tables with one row of headings."""
        words = " ".join(word for word in (self.group, self.title) if word)
        return f"{words} ({self.unit})" if self.unit else words


def _in_sla_percent(target: TargetResult) -> Figure:
    return None if target.good is None or not target.requests else 100 * target.good / target.requests


COLUMNS: tuple[Column, ...] = (
    Column("requests", "Requests", "", "", lambda target: target.requests),
    Column("failures", "Failures", "", "", lambda target: sum(target.failures.values())),
    Column("in_sla", "In SLA", "", "%", _in_sla_percent),
    Column("ttft_p50", "TTFT", "p50", "ms", lambda target: target.ttft_ms.p50),
    Column("ttft_p95", "TTFT", "p95", "ms", lambda target: target.ttft_ms.p95),
    Column("tpot_p50", "TPOT", "p50", "ms", lambda target: target.tpot_ms.p50),
    Column("tpot_p95", "TPOT", "p95", "ms", lambda target: target.tpot_ms.p95),
    Column("itl_p50", "ITL", "p50", "ms", lambda target: target.itl_ms.p50),
    Column("itl_p95", "ITL", "p95", "ms", lambda target: target.itl_ms.p95),
    Column("e2e_p50", "End to end", "p50", "ms", lambda target: target.e2e_ms.p50),
    Column("e2e_p99", "End to end", "p99", "ms", lambda target: target.e2e_ms.p99),
    Column("output_tokens", "Output tokens", "", "", lambda target: target.output_tokens),
    Column("tokens_per_s", "Tokens", "", "/s", lambda target: target.output_tokens_per_s),
    Column("requests_per_s", "Requests", "", "/s", lambda target: target.requests_per_s),
    Column("goodput_per_s", "Goodput", "", "/s", lambda target: target.goodput_per_s),
)


@dataclass(frozen=True, slots=True)
class Heading:
    """A group of columns: `titles` are those of its columns, ("",) when it is a single one without a title."""

    group: str
    unit: str
    titles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A target and its figures as text, in the order of the columns; `color` is the number of its colour."""

    target: str
    color: int
    cells: tuple[str, ...]


def headings() -> tuple[Heading, ...]:
    """The upper row of a table with two rows of headings."""
    return tuple(
        Heading(group, unit, tuple(column.title for column in columns))
        for (group, unit), columns in groupby(COLUMNS, key=lambda column: (column.group, column.unit))
    )


def rows(targets: Sequence[TargetResult], order: Sequence[str]) -> tuple[Row, ...]:
    """The figures as text, each column with as many decimals as its smallest figure needs, so that digits line up."""
    columns = [_texts([column.value(target) for target in targets]) for column in COLUMNS]
    return tuple(
        Row(target.target, color_of(target.target, order), tuple(column[number] for column in columns))
        for number, target in enumerate(targets)
    )


def tab_rows(targets: Sequence[TargetResult]) -> list[dict[str, str | Figure]]:
    """The figures as Locust's table wants them: rounded here, because its own rounding shows a missing one as 0."""
    return [
        {"name": target.target, **{column.key: _rounded(column.value(target)) for column in COLUMNS}}
        for target in targets
    ]


def color_of(target: str, order: Sequence[str]) -> int:
    """A target has the colour of its place among the run's targets, wherever it is shown."""
    return order.index(target) if target in order else len(order)


def figure_text(figure: Figure) -> str:
    """A single figure: three significant digits, whole from 100 on; a dash where nothing was measured."""
    return _text(figure, _decimals([figure]))


def _texts(figures: Sequence[Figure]) -> list[str]:
    decimals = _decimals(figures)
    return [_text(figure, decimals) for figure in figures]


def _text(figure: Figure, decimals: int) -> str:
    return "–" if figure is None else f"{figure:,.{decimals}f}"


def _decimals(figures: Sequence[Figure]) -> int:
    measured = [abs(figure) for figure in figures if figure]
    if not measured or all(isinstance(figure, int) for figure in figures if figure is not None):
        return 0
    smallest = min(measured)
    return 0 if smallest >= 100 else 1 if smallest >= 10 else 2


def _rounded(figure: Figure) -> Figure:
    if figure is None or isinstance(figure, int):
        return figure
    return round(figure, _decimals([figure]))
