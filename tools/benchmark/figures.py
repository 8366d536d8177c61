"""Tables of figures, for a terminal and for a document: the README quotes what the tool wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class FigureTable:
    """One table; every cell is text already."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_rich(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for heading in self.headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def to_markdown(self) -> str:
        lines = [self.headings, ["---:"] * len(self.headings), *self.rows]
        return f"**{self.title}**\n\n" + "".join(map(_line, lines))


@dataclass(frozen=True)
class Figures:
    """Tables, and what has to be known to read them: how it was measured, and on what."""

    tables: Sequence[FigureTable]
    notes: Sequence[str]

    def to_rich(self) -> Iterator[RenderableType]:
        yield from (table.to_rich() for table in self.tables)
        yield from map(Text, self.notes)

    def to_markdown(self) -> str:
        return "\n".join([*(table.to_markdown() for table in self.tables), *(f"{note}\n" for note in self.notes)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
