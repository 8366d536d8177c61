"""A comparison as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.reporting.blocks import Block, Bullets, Cell, Document, Heading, Item, Paragraph, Table
from tools.reporting.compare import Change, Comparison
from tools.reporting.figures import KINDS
from tools.reporting.markdown import to_markdown

_MARKS = {"regression": "loss", "improvement": "gain", "no difference seen": ""}

# Rows have to fit a terminal of 80 columns.
_VERDICTS = {"no difference seen": "none seen"}


def comparison_markdown(comparison: Comparison) -> str:
    return to_markdown(
        Document(
            title="Comparison of two ladder reports",
            subtitle=f"Before: `{comparison.before}`. After: `{comparison.after}`.",
            blocks=tuple(_blocks(comparison)),
        )
    )


def _blocks(comparison: Comparison) -> Iterator[Block]:
    yield Paragraph(f"**{_outcome(comparison)}**")
    if comparison.notes:
        yield Paragraph("What else differs:")
        yield Bullets([Item(note) for note in comparison.notes])
    if comparison.lost:
        yield Bullets([Item(_lost_text(comparison, number), "warning") for number in range(len(comparison.lost))])
    for rung in dict.fromkeys(change.rung for change in comparison.changes):
        yield Heading(2, rung)
        yield Table(
            headings=["streams", "figure", "before", "after", "change, %", "95 % interval", "difference"],
            rows=[_row(change) for change in comparison.changes if change.rung == rung],
            text_columns=2,
            text_columns_at_end=1,
        )
    yield Paragraph(
        f"A regression or an improvement is a change of more than {comparison.tolerance:g} % whose interval leaves out "
        f"0. Intervals: bootstrap over repeats and their requests, seed {comparison.seed}. Among many figures one "
        "interval in twenty leaves out 0 by chance; the tolerance is what keeps those from counting."
    )


def _outcome(comparison: Comparison) -> str:
    counts = Counter(change.verdict for change in comparison.changes)
    names = {"regression": "regressions", "improvement": "improvements", "no difference seen": "without a difference"}
    parts = [f"{counts[verdict]} {name}" for verdict, name in names.items()]  # type: ignore[index]
    lost = sum(lost.only_in == "before" for lost in comparison.lost)
    return ", ".join([*parts, *([f"{lost} that can no longer be measured"] if lost else [])]) + "."


def _lost_text(comparison: Comparison, number: int) -> str:
    lost = comparison.lost[number]
    return f"{lost.rung} at {lost.level}: measured only {lost.only_in}: {lost.reason}"


def _row(change: Change) -> list[Cell]:
    kind, interval = KINDS[change.figure], change.interval
    return [
        Cell(str(change.level)),
        Cell(kind.name),
        Cell(f"{change.before:,.4g}"),
        Cell(f"{change.after:,.4g}"),
        Cell(f"{interval.change:+.1f}"),
        Cell(f"{interval.low:+.1f} to {interval.high:+.1f}"),
        Cell(_VERDICTS.get(change.verdict, change.verdict), _MARKS[change.verdict]),
    ]
