"""What a report says, in order. Markdown and HTML are written from it, so they cannot differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tools.reporting.blocks import (
    Block,
    Bullets,
    Card,
    Cards,
    Cell,
    Chart,
    Code,
    Diff,
    Document,
    Heading,
    Item,
    Paragraph,
    Table,
)
from tools.reporting.figures import KINDS, Figure, LevelFigures
from tools.reporting.gains import Gain
from tools.reporting.model import Report, RungReport
from tools.reporting.published_view import published_blocks
from tools.reporting.rungs import RungFacts
from tools.reporting.table_cells import ABSENT, rounded, spread_cell, streams

_MIB: Final = 1 << 20
_CHARTS: Final = {
    "throughput": "Output tokens a second against concurrent streams, every rung",
    "ttft": "Time to first token against concurrent streams, every rung",
    "tpot": "Time per output token against concurrent streams, every rung",
    "break-even": "Tokens/s with drafts over tokens/s without, against concurrent streams",
    "latency-cdf": "Share of requests answered by a time, every rung, by concurrent streams",
    "memory": "Peak memory of every rung's engine",
}


def document(report: Report, charts: Collection[str]) -> Document:
    """`charts` names the charts that there are."""
    labels = [rung.facts.label for rung in report.rungs]
    return Document(
        title=f"{report.model}: {labels[0]}" if len(labels) == 1 else f"{report.model}, {labels[0]} to {labels[-1]}",
        subtitle=f"{_hardware(report)}. {report.started_at:%Y-%m-%d %H:%M} UTC, commit `{_commit(report)}`.",
        blocks=tuple(_blocks(report, charts)),
    )


def _blocks(report: Report, charts: Collection[str]) -> Iterator[Block]:
    yield from _summary(report)
    yield Heading(2, "Charts")
    yield Paragraph("Points are medians of the repeats, bars go from the lowest repeat to the highest.")
    yield from (Chart(name, text) for name, text in _CHARTS.items() if name in charts)
    yield Heading(2, "Step by step")
    yield Paragraph(
        "Each step against the rung below: what its rendered configuration changes, and what that did. Ratios are how "
        "many times better a figure is (2× is twice the tokens/s, or half the latency), the median of the repeats with "
        "the lowest and the highest; repeats of the same turn are compared. What differs by less than 5 %, or not in "
        "every repeat, counts as no difference."
    )
    for rung in report.rungs:
        yield from _step(rung, report)
    yield Heading(2, "All figures")
    for level in report.settings.levels:
        yield _level_table(report, level)
    yield from published_blocks(report)
    yield from _unmeasured(report)
    yield from _method(report)


def _summary(report: Report) -> Iterator[Block]:
    cards = list(_cards(report))
    if cards:
        yield Cards(cards)
    yield _seeds_table(report)
    yield Paragraph(
        f"TTFT, TPOT and end to end are medians with {streams(report.settings.levels[0])}. {_repeats(report)}"
    )
    if any(rung.below for rung in report.rungs):
        yield _gain_table(report)
    warnings = [
        Item(f"{rung.facts.label}: {finding.text}", finding.kind)
        for rung in report.rungs
        for finding in rung.findings
        if finding.kind == "warning"
    ]
    if report.unmeasured:
        warnings.append(
            Item(f"{len(report.unmeasured)} of {len(report.cells)} cells have no figure: see Not measured.", "warning")
        )
    if report.git.dirty:
        warnings.append(
            Item("The checkout had uncommitted changes: the commit alone does not reproduce this.", "warning")
        )
    if warnings:
        yield Bullets(warnings)


def _cards(report: Report) -> Iterator[Card]:
    levels = report.settings.levels
    wanted: list[tuple[Figure, int]] = [("tokens_per_s", levels[-1]), ("tokens_per_s", levels[0])]
    wanted += [("tpot_ms", levels[0]), ("ttft_ms", levels[0])]
    for figure, level in dict.fromkeys(wanted):
        measured = [(rung.facts.label, found) for rung in report.rungs if (found := rung.level(level)) is not None]
        if len(measured) < 2:
            continue
        more = KINDS[figure].more_is_better
        lowest, first = measured[0]
        best, best_figures = (max if more else min)(measured, key=lambda pair: pair[1].spread(figure).median)
        start, end = first.spread(figure).median, best_figures.spread(figure).median
        unit = "" if figure == "tokens_per_s" else " ms"
        value = f"{rounded(start)} → {rounded(end)}{unit}" if best != lowest else f"{rounded(start)}{unit}"
        times = end / start if more else start / end
        note = f"{lowest} → {best}: {times:.1f}× better" if best != lowest else f"{lowest} is the best rung"
        yield Card(f"{KINDS[figure].name} at {streams(level)}", value, note)


def _seeds_table(report: Report) -> Table:
    low, high = report.settings.levels[0], _compared_level(report.settings.levels)
    throughputs = [f"tokens/s at {level}" for level in dict.fromkeys((low, high))]
    return Table(
        headings=[
            *("rung", "TTFT ms", "TPOT ms", "end to end s"),
            *throughputs,
            *("peak memory MiB", "quality"),
        ],
        rows=[_seeds_row(rung, report, low, high) for rung in report.rungs],
        text_columns_at_end=1,
    )


def _seeds_row(rung: RungReport, report: Report, low: int, high: int) -> list[Cell]:
    alone = rung.level(low)
    latencies = (
        [spread_cell(alone.ttft_ms), spread_cell(alone.tpot_ms), spread_cell(alone.e2e_ms, 1e-3)]
        if alone is not None
        else [_why_absent(rung, report, low)] * 3
    )
    throughputs = []
    for level in dict.fromkeys((low, high)):
        found = rung.level(level)
        throughputs.append(spread_cell(found.tokens_per_s) if found is not None else _why_absent(rung, report, level))
    memory = rung.peak_memory_bytes
    return [
        Cell(rung.facts.label, note=rung.facts.adds),
        *latencies,
        *throughputs,
        Cell(f"{memory / _MIB:,.0f}") if memory is not None else ABSENT,
        Cell(_quality(rung), "loss" if rung.quality.outside else ""),
    ]


def _quality(rung: RungReport) -> str:
    missed = f"; outside: {'; '.join(rung.quality.outside)}" if rung.quality.outside else ""
    return rung.quality.text + missed


def _gain_table(report: Report) -> Table:
    """Tokens/s of each rung over the one below, at every level."""
    rows = []
    for rung in report.rungs:
        if rung.below is None:
            continue
        found = {gain.level: gain for gain in rung.gains if gain.over == rung.below and gain.figure == "tokens_per_s"}
        cells = [_gain(found[level]) if level in found else ABSENT for level in report.settings.levels]
        rows.append([Cell(f"{rung.below} → {rung.facts.label}", note=rung.facts.adds), *cells])
    return Table(
        headings=["step", *(streams(level) for level in report.settings.levels)],
        rows=rows,
        caption="Gain in tokens/s over the rung below",
    )


def _step(rung: RungReport, report: Report) -> Iterator[Block]:
    facts = rung.facts
    yield Heading(3, f"{facts.label}: {facts.adds}")
    if rung.below is None:
        yield Paragraph(f"`{facts.target}`, the lowest rung: what the others are measured against.")
    else:
        yield Paragraph(f"`{facts.target}` against {rung.below}.")
        yield Diff(rung.diff) if rung.diff else Paragraph("The rendered configuration is the same.")
    for over in dict.fromkeys(gain.over for gain in rung.gains):
        yield _figures_table(rung, over)
    lengths = [level for level in rung.levels if level.acceptance_length is not None]
    if lengths:
        yield _acceptance_table(lengths, facts)
    if rung.findings:
        yield Bullets([Item(finding.text, finding.kind) for finding in rung.findings])
    missing = [level for level in report.settings.levels if rung.level(level) is None]
    if missing:
        reasons = {level: _reason(report, facts.label, level) for level in missing}
        yield Bullets([Item(f"No figure at {level}: {reason}.", "warning") for level, reason in reasons.items()])


def _figures_table(rung: RungReport, over: str) -> Table:
    gains = [gain for gain in rung.gains if gain.over == over]
    levels = sorted({gain.level for gain in gains})
    rows = []
    for level in levels:
        by_figure = {gain.figure: gain for gain in gains if gain.level == level}
        cells = [_gain(by_figure[figure]) if figure in by_figure else ABSENT for figure in KINDS]
        rows.append([Cell(streams(level)), *cells])
    return Table(
        headings=["", *(kind.name for kind in KINDS.values())],
        rows=rows,
        caption=f"{rung.facts.label} over {over}",
    )


def _acceptance_table(levels: Sequence[LevelFigures], facts: RungFacts) -> Table:
    made_up = "" if facts.synthetic_length is None else ", synthetic acceptance"
    return Table(
        headings=["", "acceptance length", "drafted tokens kept"],
        rows=[
            [
                Cell(streams(level.level)),
                Cell(f"{level.acceptance_length:.2f} of {facts.draft_tokens + 1}"),
                Cell(f"{100 * (level.acceptance_rate or 0):.0f} %"),
            ]
            for level in levels
        ],
        caption=f"Speculation, by the engine's own counters{made_up}",
    )


def _level_table(report: Report, level: int) -> Table:
    return Table(
        headings=[
            *("rung", "tokens/s", "requests/s", "TTFT ms", "TTFT p95", "TPOT ms", "TPOT p95"),
            *("end to end ms", "p95", "p99"),
        ],
        rows=[_level_row(rung, report, level) for rung in report.rungs],
        caption=f"{streams(level)[0].upper()}{streams(level)[1:]}, {report.settings.requests(level)} requests",
    )


def _level_row(rung: RungReport, report: Report, level: int) -> list[Cell]:
    found = rung.level(level)
    if found is None:
        return [Cell(rung.facts.label), *[_why_absent(rung, report, level)] * 9]
    spreads = [found.tokens_per_s, found.requests_per_s, found.ttft_ms, found.ttft_p95_ms, found.tpot_ms]
    spreads += [found.tpot_p95_ms, found.e2e_ms, found.e2e_p95_ms, found.e2e_p99_ms]
    return [Cell(rung.facts.label), *map(spread_cell, spreads)]


def _unmeasured(report: Report) -> Iterator[Block]:
    if not report.unmeasured:
        return
    yield Heading(2, "Not measured")
    yield Table(
        headings=["rung", "streams", "repeat", "", "why"],
        rows=[
            [
                Cell(cell.rung),
                Cell(str(cell.level)),
                Cell(str(cell.repeat)),
                Cell(cell.state, "loss"),
                Cell(cell.reason),
            ]
            for cell in report.unmeasured
        ],
        text_columns_at_end=2,
    )


def _method(report: Report) -> Iterator[Block]:
    settings = report.settings
    yield Heading(2, "How it was measured")
    served = (
        "Every rung had a server of its own and the machine to itself; its repeats came one after the other."
        if settings.isolated
        else "One server held all rungs, and one was asked at a time; repeats by turns, the whole ladder each time."
    )
    reused = sum(cell.reused for cell in report.cells)
    yield Bullets(
        [
            Item(settings.text() + _counted_tokens(report)),
            Item(
                f"Seed {settings.seed}: every rung gets the same prompts, and no two cells of a rung do, so that no "
                "prefix cache answers. Before each turn a rung gets one short request that is not counted."
            ),
            Item(f"{'1 repeat' if settings.repeats == 1 else f'{settings.repeats} repeats'}. {served}"),
            Item(
                "Latencies count from when a request was due, tokens are the server's count. A cell with a request "
                "that was not answered whole has no figure. TPOT = (end to end - TTFT) / (tokens - 1)."
            ),
            *_memory_note(report),
            Item(f"Quality: {_quality_sources(report)}."),
            Item(f"{len(report.cells)} cells, {report.seconds / 60:.1f} minutes." + _reuse(reused, report)),
            Item(report.machine.text()),
            Item(f"Commit `{_commit(report)}`, profile `{report.profile}`."),
        ]
    )
    yield Paragraph("The command that makes this report again:")
    yield Code(report.command)
    yield Paragraph(
        "`report.json` holds everything that is said here; `cells/` has the results of each load test and a line for "
        "each of its requests. `./ladder report compare A B` compares two such folders."
    )


def _counted_tokens(report: Report) -> str:
    measured = [cell.figures for cell in report.cells if cell.figures is not None]
    requests = sum(figures.requests for figures in measured)
    if not requests:
        return ""
    prompt = sum(figures.input_tokens for figures in measured) / requests
    answer = sum(figures.output_tokens for figures in measured) / requests
    return f" By the server's count, prompts had {prompt:.4g} tokens on average, answers {answer:.4g}."


def _memory_note(report: Report) -> Iterator[Item]:
    if any(rung.peak_memory_bytes is not None for rung in report.rungs):
        what = "its GPU memory" if report.accelerator == "cuda" else "resident memory, each process at its own peak"
        yield Item(f"Peak memory is the engine's own metric `ladder_peak_memory_bytes`: {what}.")


def _quality_sources(report: Report) -> str:
    return "; ".join(dict.fromkeys(rung.quality.source for rung in report.rungs))


def _reuse(reused: int, report: Report) -> str:
    text = f" {reused} of them are from an earlier run with the same key." if reused else ""
    stale = "; ".join(f"{count} for other {reason}" for reason, count in report.stale.items())
    return text + (f" Earlier cells that did not count any more: {stale}." if stale else "")


def _why_absent(rung: RungReport, report: Report, level: int) -> Cell:
    states = {cell.state for cell in report.cells_of(rung.facts.label, level)}
    return Cell("failed" if "failed" in states else "skipped" if states else "–", "absent")


def _reason(report: Report, rung: str, level: int) -> str:
    reasons = dict.fromkeys(cell.reason for cell in report.cells_of(rung, level) if cell.reason)
    return "; ".join(reasons) or "not asked for"


def _gain(gain: Gain) -> Cell:
    ratio = gain.ratio
    note = f"{ratio.low:.2f}-{ratio.high:.2f}" if len(ratio.values) > 1 else ""
    return Cell(f"{ratio.median:.2f}×", gain.direction, note)


def _compared_level(levels: Sequence[int]) -> int:
    """32 as in the seeds of this ladder, or the highest level where that was not asked for."""
    return 32 if 32 in levels else max(levels)


def _repeats(report: Report) -> str:
    if report.settings.repeats == 1:
        return "Everything was measured once: there is no spread to tell a difference from chance."
    return f"Figures are medians of {report.settings.repeats} repeats, with the lowest and the highest."


def _hardware(report: Report) -> str:
    machine = report.machine
    return "; ".join([*machine.gpus, f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB"])


def _commit(report: Report) -> str:
    commit = (report.git.commit or "none")[:12]
    return f"{commit} and changes" if report.git.dirty else commit
