"""A release, for people: the table of its targets, what it waits for, what was found, and its history."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tools.release.controller import Standing
from tools.release.history import Event
from tools.release.judgement import Judgement, Verdict
from tools.release.observation import Observation
from tools.release.progress import Progress
from tools.release.status import RouteStatus, TargetRow, rows_of
from tools.release.weights import text_of

_STYLES: Final = {Verdict.WORSE: "red", Verdict.UNSURE: "yellow", Verdict.TOO_FEW: "dim", Verdict.FINE: "green"}
# Without a terminal, say at least this often that work goes on.
_HEARTBEAT_S: Final = 20.0


class ReleaseDisplay:
    """Shows what `show` is given, as a context: redrawn in place on a terminal, a line for each change elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._began = time.monotonic()
        self._title = ""
        self._said_at = 0.0

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, standing: Standing) -> None:
        """The release as it is now."""
        if self._live:
            self._live.update(standing_view(standing), refresh=True)
            return
        title = title_of(standing.progress)
        now = time.monotonic()
        if title != self._title or now - self._said_at >= _HEARTBEAT_S:
            note = f"; {standing.note}" if standing.note else ""
            self._console.print(Text(f"  {now - self._began:4.0f} s  {title}{note}"), soft_wrap=True)
            self._title, self._said_at = title, now


def standing_view(standing: Standing) -> RenderableType:
    """Title, table, what it waits for, findings."""
    progress = standing.progress
    parts: list[RenderableType] = [Text(title_of(progress), style="bold")]
    if standing.observation is not None:
        parts.append(targets_table(_rows(standing.observation, progress)))
    if standing.note:
        parts.append(Text(standing.note))
    if standing.judgement is not None:
        parts.append(findings_table(standing.judgement))
    return Group(*parts)


def status_view(status: RouteStatus) -> RenderableType:
    """The route's release, table, and what was found."""
    title = f'route "{status.route}"' if status.progress is None else title_of(status.progress)
    began = (
        "since the server started"
        if status.since is None
        else f"since {datetime.fromtimestamp(status.since).astimezone():%H:%M:%S}"
    )
    parts: list[RenderableType] = [Text(title, style="bold"), targets_table(status.targets)]
    parts.append(Text(f"{began}; {status.note}" if status.note else began, style="dim"))
    if status.judgement is not None:
        parts.append(findings_table(status.judgement))
    return Group(*parts)


def title_of(progress: Progress) -> str:
    """One line: which release, and where it is."""
    state = f"{progress.title}{', paused' if progress.paused else ''}"
    why = f" ({progress.why})" if progress.why and (progress.over or progress.paused) else ""
    return f'"{progress.target}" on route "{progress.route}", against "{progress.stable}": {state}{why}'


def targets_table(rows: Sequence[TargetRow]) -> Table:
    """Weight asked, share got, users, requests, latencies and errors of each target."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    # A long name takes several lines before a number is cut.
    table.add_column("target", overflow="fold")
    for heading in (
        "asked\n%", "got %\n(95 %)", "users", "re-\nquests", "run-\nning", "TTFT\np95 ms", "ITL\np95 ms",
        "errors %\n(95 %)",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.target,
            f"{row.weight:g}",
            _with_interval(row.share, row.share_low, row.share_high),
            str(row.users),
            str(row.requests),
            str(row.in_flight),
            _number(row.ttft_p95_ms),
            _number(row.itl_p95_ms),
            _with_interval(row.error_rate, row.error_low, row.error_high),
        )
    return table


def findings_table(judgement: Judgement) -> Table:
    """What the latest look of the step found, criterion by criterion."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("criterion")
    table.add_column("verdict", no_wrap=True)
    for heading in ("canary", "stable", "worse by", "surely by", "allowed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in judgement.findings:
        measured = finding.canary is not None and finding.stable is not None
        table.add_row(
            finding.criterion + (f" ({finding.detail})" if finding.detail else ""),
            Text(finding.verdict.value, style=_STYLES.get(finding.verdict, "dim")),
            *(f"{value:.4g} {finding.unit}" if value is not None else "" for value in (finding.canary, finding.stable)),
            *(f"{value:+.3g} {finding.margin_unit}" if measured else "" for value in (finding.change, finding.least)),
            f"{finding.margin:+g} {finding.margin_unit}",
        )
    return table


def history_view(events: Sequence[Event]) -> Text:
    """When, what, who, why, from what to what; as many lines as it takes, so that a narrow terminal shows it too."""
    text = Text()
    for event in events:
        text.append(f"{event.when}  {event.what:<7}  ", style="bold")
        text.append(f"{event.target}, by {event.who}\n")
        change = text_of(event.before)
        if event.before != event.after:
            change += f" -> {text_of(event.after)}"
        text.append(f"    {change}\n")
        if event.why:
            text.append(f"    {event.why}\n", style="dim")
    text.rstrip()
    return text


def _rows(look: Observation, progress: Progress) -> list[TargetRow]:
    try:
        return rows_of(look, progress.window, progress.event.after)
    except ValueError:
        # The server was started again; the controller begins to count anew at its next look.
        return rows_of(look, None, progress.event.after)


def _with_interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return ""
    return f"{_percent(value)} ({_percent(low)}-{_percent(high)})"


def _percent(value: float) -> str:
    """A tenth matters at 1 %, and not at 50 %; the table has to fit into 80 columns."""
    return f"{value:.{int(value < 10)}f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
