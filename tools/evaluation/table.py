"""The quality of every rung on one page, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.client.request import Target
from tools.client.rungs import rung_of

from .results import Agreement, Choice, Evaluation, Format, NotMeasured, Perplexity, RungResult
from .verdict import accuracy_difference, perplexity_increase

# "perplexity", "repetition": a column this wide breaks between words, and all of them fit a terminal of 80.
_LONGEST_WORD: Final = 10


def evaluation_view(found: Evaluation) -> Iterator[RenderableType]:
    """The table, and below it what has to be known to read it."""
    yield _table(found)
    yield from map(Text, _notes(found))


def _table(found: Evaluation) -> Table:
    title = "How good is each rung" + ("" if found.complete else " (partial: not everything was measured)")
    table = Table(title=title, title_justify="left", show_lines=True, pad_edge=False)
    table.add_column("rung", no_wrap=True)
    choice = "multiple choice" if found.settings.mmlu is None else "MMLU"
    for heading in ("perplexity", choice, "format", "agreement", "verdict"):
        table.add_column(heading, overflow="fold", min_width=_LONGEST_WORD)
    reference = found.rungs[0]
    for result in found.rungs:
        table.add_row(
            _name(result),
            _perplexity(result, reference),
            _choice(result, reference),
            _format(result),
            _agreement(result, reference),
            _verdict(result),
        )
    return table


def _name(result: RungResult) -> Text:
    rung = rung_of(Target.parse(result.rung))
    return Text.assemble((f"{rung.label}\n", "bold"), result.rung) if rung is not None else Text(result.rung)


def _perplexity(result: RungResult, reference: RungResult) -> Text:
    found = result.perplexity
    if not isinstance(found, Perplexity):
        return _absent(found)
    increase = perplexity_increase(result, reference) if result is not reference else None
    return _with_difference(f"{found.perplexity:.2f}", increase, " %")


def _choice(result: RungResult, reference: RungResult) -> Text:
    found = result.choice
    if not isinstance(found, Choice):
        return _absent(found)
    difference = accuracy_difference(result, reference) if result is not reference else None
    text = _with_difference(f"{found.accuracy:.1f} % ± {found.standard_error:.1f}", difference, "")
    if found.unanswered:
        text.append(f"\n{found.unanswered} of {found.questions} without a letter")
    return text


def _format(result: RungResult) -> Text:
    found = result.format
    if not isinstance(found, Format):
        return _absent(found)
    kinds = (f"{kind.replace('_', ' ')} {cases.passed}/{cases.cases}" for kind, cases in found.kinds.items())
    return Text("\n".join([f"{found.passed_percent:.0f} %", *kinds]))


def _agreement(result: RungResult, reference: RungResult) -> Text:
    found = result.agreement
    if not isinstance(found, Agreement):
        return _absent(found)
    if result is reference:
        return Text("the reference", style="dim")
    return Text(f"{found.equal_percent:.1f} %\n{found.identical} of {found.prompts} identical")


def _verdict(result: RungResult) -> Text:
    if result.verdict is None:
        return Text("no limits", style="dim")
    if result.verdict.failures:
        return Text("outside: " + "; ".join(result.verdict.failures), style="red")
    inside = Text("inside", style="green")
    if result.verdict.not_judged:
        inside.append(f"\nnot judged: {', '.join(result.verdict.not_judged)}", style="dim")
    return inside


def _with_difference(figure: str, difference: float | None, unit: str) -> Text:
    return Text(figure if difference is None else f"{figure}\n({difference:+.1f}{unit})")


def _absent(found: NotMeasured | None) -> Text:
    if found is None:
        return Text("-", style="dim")
    # Why takes a line of its own below the table.
    return Text("failed", style="red") if found.error else Text("not measured", style="dim")


def _notes(found: Evaluation) -> Iterator[str]:
    for result in found.rungs:
        for error, reason in dict.fromkeys((absent.error, absent.not_measured) for absent in result.unmeasured):
            yield f"{'failed' if error else 'not measured'}: {result.rung}: {reason}"
    reference = found.rungs[0]
    parts = [f'Differences and agreement are against "{found.reference}".']
    if isinstance(reference.perplexity, Perplexity):
        parts.append(f"Perplexity: {reference.perplexity.tokens} tokens, windows of {found.settings.window}.")
    if isinstance(reference.choice, Choice):
        parts.append(f"Multiple choice: {reference.choice.questions} questions, accuracy ± its standard error.")
    parts.append(f'Profile "{found.profile}", all greedy, {found.settings.concurrency} requests at once.')
    yield " ".join(parts)
    commit = (found.git.commit or "none")[:12] + (" and changes" if found.git.dirty else "")
    yield f"{found.machine.text()}; commit {commit}; {found.seconds:.0f} s"
