"""What a report is written with, whatever it is written as. In texts, `...` is code and **...** is strong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Item:
    """`kind` names how it is to be taken: gain, loss, none, reason, note or warning; empty for a plain item."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Cell:
    """`note` is said more quietly, after the text."""

    text: str
    kind: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The first `text_columns` columns and the last `text_columns_at_end` are text, the others figures."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text_columns: int = 1
    text_columns_at_end: int = 0
    caption: str = ""

    def is_text(self, column: int) -> bool:
        return column < self.text_columns or column >= len(self.headings) - self.text_columns_at_end


@dataclass(frozen=True, slots=True)
class Card:
    """One figure to begin with."""

    title: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Cards:
    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Chart:
    """`name` is that of the SVG, `text` what it shows."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    text: str


@dataclass(frozen=True, slots=True)
class Code:
    text: str


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Cards | Chart | Diff | Code


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    subtitle: str
    blocks: Sequence[Block] = field(default_factory=tuple)
