from __future__ import annotations

from rich.console import Console

from tools.benchmark.figures import Figures, FigureTable

FIGURES = Figures(
    [
        FigureTable("Speed", ("streams", "tokens/s"), [("1", "10"), ("16", "120")]),
        FigureTable("Cost", ("a",), [("2",)]),
    ],
    ["How it was measured.", "A [machine] with brackets"],
)


def test_markdown_has_the_tables_then_the_notes() -> None:
    assert FIGURES.to_markdown() == (
        "**Speed**\n\n| streams | tokens/s |\n| ---: | ---: |\n| 1 | 10 |\n| 16 | 120 |\n\n"
        "**Cost**\n\n| a |\n| ---: |\n| 2 |\n\n"
        "How it was measured.\n\nA [machine] with brackets\n"
    )


def test_the_terminal_shows_the_same_and_takes_nothing_for_markup() -> None:
    console = Console(width=60, record=True, file=None, quiet=False)
    with console.capture() as shown:
        console.print(*FIGURES.to_rich(), sep="\n")
    text = shown.get()
    for part in ("Speed", "streams", "120", "Cost", "How it was measured.", "A [machine] with brackets"):
        assert part in text
