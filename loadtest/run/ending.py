"""What becomes of a run that has ended: its figures are printed and written, and decide the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from loadtest.exit_codes import COULD_NOT_RUN, KEPT, MISSED
from loadtest.statistics.exports import write_results
from loadtest.statistics.records import Record
from loadtest.statistics.results import RunResult
from loadtest.statistics.terminal import result_view
from loadtest.statistics.timeline import Timeline
from loadtest.webui.report_page import report_page


def exit_code(result: RunResult) -> int:
    """0: all that was promised is kept. 1: the SLA was missed; without one, a request failed. 2: no, or only a part of,
    the run that was asked for.
    """
    if result.partial or not any(target.requests for target in result.targets):
        return COULD_NOT_RUN
    if result.search is not None and result.search.highest_rate_inside is None:
        return MISSED
    if result.sla is None:
        return MISSED if any(target.failures for target in result.targets) else KEPT
    return MISSED if any(target.missed for target in result.targets) else KEPT


def print_result(console: Console, result: RunResult) -> None:
    """The figures, and what to think of them."""
    for renderable in result_view(result):
        console.print(renderable)
    for line in search_lines(result):
        console.print(line)


def search_lines(result: RunResult) -> Iterator[Text]:
    """What a search found."""
    search = result.search
    if search is None:
        return
    for step in search.steps:
        verdict = "inside the SLA" if step.inside else f"outside: {'; '.join(step.reasons)}"
        yield Text(f"{step.rate:.4g} requests/s: {verdict}", style="" if step.inside else "dim")
    if search.highest_rate_inside is None:
        yield Text("no rate inside the SLA was found", style="bold red")
    else:
        above = "the highest that was allowed"
        if search.lowest_rate_outside is not None:
            above = f"{search.lowest_rate_outside:.4g} is outside"
        yield Text(f"highest rate inside the SLA: {search.highest_rate_inside:.4g} requests/s ({above})", style="bold")


def write(folder: Path, result: RunResult, timeline: Timeline, records: Sequence[Record]) -> None:
    """All files of the run. Raises LoadTestError naming the file that cannot be written."""
    write_results(folder, result, timeline, records, page=report_page)
