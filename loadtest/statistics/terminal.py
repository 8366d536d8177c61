"""The results of a run in a terminal: a table, what went wrong, what the SLA says, and how far to trust it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from loadtest.statistics.results import Quantiles, RunResult, TargetResult

_MESSAGES_SHOWN: Final = 3
_NOTHING: Final = "-"
_CAPTION: Final = "Latencies: p50 / p95 / p99 of whole answers, from when the request was due."

_ROWS: Final[tuple[tuple[str, Callable[[TargetResult], str]], ...]] = (
    ("answered by", lambda target: "\n".join(target.served_by) or _NOTHING),
    ("requests", lambda target: f"{target.requests:,}"),
    ("failures", lambda target: f"{sum(target.failures.values()):,}"),
    ("still running at the end", lambda target: f"{target.cut:,}"),
    ("requests/s", lambda target: _figure(target.requests_per_s)),
    ("goodput, requests/s", lambda target: _figure(target.goodput_per_s)),
    ("output tokens", lambda target: f"{target.output_tokens:,}"),
    ("of these in cut requests", lambda target: f"{target.cut_output_tokens:,}"),
    ("output tokens/s", lambda target: _figure(target.output_tokens_per_s)),
    ("TTFT, ms", lambda target: _latency(target.ttft_ms)),
    ("TPOT, ms", lambda target: _latency(target.tpot_ms)),
    ("ITL, ms", lambda target: _latency(target.itl_ms)),
    ("end to end, ms", lambda target: _latency(target.e2e_ms)),
    ("send lag, ms", lambda target: _latency(target.lag_ms)),
)


def result_view(result: RunResult) -> Iterator[RenderableType]:
    """What to print, one after the other."""
    yield Text(_title(result), style="bold")
    yield _table(result)
    yield Text(_CAPTION, style="dim")
    for target in result.targets:
        yield from _failures(target)
    yield from _uncounted(result)
    if result.sla is not None:
        yield from map(_sla_line, result.targets)
    for reason in result.client.saturated:
        yield Text.assemble(("client saturated: ", "bold yellow"), reason)
    for reason in result.partial:
        yield Text.assemble(("partial: ", "bold yellow"), reason)


def _title(result: RunResult) -> str:
    partial = " (partial)" if result.partial else ""
    warmup = f"; requests left out as warm-up: {result.warmup_requests:,}" if result.warmup_requests else ""
    return f"Load test, {result.seconds:.1f} s{partial}{warmup}"


def _table(result: RunResult) -> Table:
    table = Table()
    table.add_column("")
    for target in result.rows:
        table.add_column(Text(target.target), justify="right", overflow="fold")
    for heading, figure in _ROWS:
        table.add_row(heading, *(Text(figure(target)) for target in result.rows))
    return table


def _failures(target: TargetResult) -> Iterator[Text]:
    for kind, count in target.failures.items():
        yield Text(f"{target.target}: {count:,} of {target.requests:,} requests failed: {kind}", style="red")
    for message, count in islice(target.messages.items(), _MESSAGES_SHOWN):
        yield Text(f"  {count:,} times: {_printable(message)}", style="dim")


def _uncounted(result: RunResult) -> Iterator[Text]:
    for target in result.targets:
        if target.cut_uncounted:
            yield Text(
                f"{target.target}: {target.cut_uncounted:,} requests were cut before the server had counted their "
                "tokens: these are in no figure",
                style="yellow",
            )


def _sla_line(target: TargetResult) -> Text:
    if not target.missed:
        return Text.assemble((f"{target.target}: SLA kept", "green"))
    return Text("\n").join(
        Text.assemble((f"{target.target}: SLA missed: ", "bold red"), miss.text()) for miss in target.missed
    )


def _printable(message: str) -> str:
    """One line: what a server says must not move the cursor."""
    return "".join(character if character.isprintable() else " " for character in message)


def _latency(latency: Quantiles) -> str:
    if not latency.count:
        return _NOTHING
    return " / ".join(_figure(value) for value in (latency.p50, latency.p95, latency.p99))


def _figure(value: float | None) -> str:
    """Three digits, or all of those before the point."""
    if value is None:
        return _NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
