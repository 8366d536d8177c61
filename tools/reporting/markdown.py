"""A document as Markdown, which reads well as plain text too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.reporting.blocks import Block, Bullets, Cards, Cell, Chart, Code, Diff, Document, Heading, Paragraph, Table

_MARKS = {"gain": "▲ ", "loss": "▼ ", "warning": "⚠ "}


def to_markdown(document: Document) -> str:
    """Charts are linked as charts/NAME.svg."""
    parts = [f"# {document.title}", document.subtitle, *("\n".join(_block(block)) for block in document.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, text):
            yield f"{'#' * level} {text}"
        case Paragraph(text):
            yield text
        case Bullets(items):
            yield from (f"- {_MARKS.get(item.kind, '')}{item.text}" for item in items)
        case Table():
            yield from _table(block)
        case Cards(cards):
            yield from (f"- {card.title}: **{card.value}**, {card.note}" for card in cards)
        case Chart(name, text):
            yield f"![{text}](charts/{name}.svg)"
        case Diff(text):
            yield from ("```diff", text.rstrip("\n"), "```")
        case Code(text):
            yield from ("```sh", text.rstrip("\n"), "```")


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield f"{table.caption}\n"
    yield _row(table.headings)
    yield _row([":--" if table.is_text(column) else "--:" for column in range(len(table.headings))])
    for row in table.rows:
        yield _row([_MARKS.get(cell.kind, "") + _escaped(_cell(cell)) for cell in row])


def _cell(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
