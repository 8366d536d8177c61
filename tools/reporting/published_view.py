"""The section of a GPU report that shows the published figures."""

from __future__ import annotations

from collections.abc import Iterator

from tools.reporting import published
from tools.reporting.blocks import Block, Cell, Heading, Paragraph, Table
from tools.reporting.figures import KINDS, Figure
from tools.reporting.model import Report, RungReport
from tools.reporting.table_cells import ABSENT, rounded, spread_cell, streams


def published_blocks(report: Report) -> Iterator[Block]:
    """On a GPU, the figures of the tutorials beside these."""
    rungs = [rung for rung in report.rungs if rung.facts.label in published.A100 and rung.levels]
    if report.accelerator != "cuda" or not rungs:
        return
    yield Heading(2, f"Beside the published {published.CARD} figures")
    yield Paragraph(
        f"The tutorials behind this ladder measure Llama-2-7B-Chat on an {published.CARD}, with prompts of 50 tokens "
        f"and answers of 256. Here it is {report.model} on {', '.join(report.machine.gpus)}, with "
        f"{report.settings.input_tokens} and {report.settings.output_tokens} tokens."
    )
    levels = [level for level in (16, 32, 64) if level in report.settings.levels]
    columns: list[tuple[Figure, int, str]] = [("ttft_ms", 1, "TTFT ms"), ("tpot_ms", 1, "TPOT ms")]
    columns += [("tokens_per_s", level, f"tokens/s at {level}") for level in levels]
    yield Table(
        headings=["rung", *(heading for _, _, name in columns for heading in (name, published.CARD))],
        rows=[
            [Cell(rung.facts.label), *(cell for figure, level, _ in columns for cell in _both(rung, figure, level))]
            for rung in rungs
        ],
        caption="Measured here, and published",
    )
    gains = list(published.claimed_gains(report))
    if gains:
        yield Table(
            headings=["step", "", "published", "here", "why they differ"],
            rows=[
                [
                    Cell(f"{gain.below} → {gain.above}"),
                    Cell(f"{KINDS[gain.figure].name} at {streams(gain.level)}"),
                    Cell(f"{gain.claimed:.3g}×"),
                    Cell(f"{gain.ours:.3g}×"),
                    Cell(gain.why),
                ]
                for gain in gains
            ],
            text_columns=2,
            text_columns_at_end=1,
            caption="How many times better a rung is than the one below",
        )


def _both(rung: RungReport, figure: Figure, level: int) -> tuple[Cell, Cell]:
    ours, theirs = rung.level(level), published.A100[rung.facts.label].value(figure, level)
    return (
        ABSENT if ours is None else spread_cell(ours.spread(figure)),
        ABSENT if theirs is None else Cell(rounded(theirs)),
    )
