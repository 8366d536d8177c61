"""The report of a run: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadtest.statistics.results import RunResult, TargetResult
from loadtest.statistics.timeline import Timeline
from loadtest.webui import chart_data
from loadtest.webui.command import command
from loadtest.webui.pages import inlined, render
from loadtest.webui.target_table import Figure, color_of, figure_text, rows
from loadtest.webui.wording import settings


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a target kept a promise, and what it measured."""

    kept: bool
    measured: str


@dataclass(frozen=True, slots=True)
class Promise:
    """One limit of the SLA; the verdicts are in the order of the run's results."""

    what: str
    limit: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A field of the limits, and the figure of a target that it is held against."""

    field: str
    what: str
    bound: str
    unit: str
    measure: Callable[[TargetResult], Figure]


def report_page(result: RunResult, timeline: Timeline | None) -> str:
    """The whole page as text; scripts and styles stand in it, and nothing is loaded from anywhere."""
    order = result.options.targets
    charts = {
        "targets": chart_data.targets(order),
        "limits_ms": chart_data.limits_ms(result),
        "timeline": {} if timeline is None else chart_data.over_time(timeline),
        "distributions": chart_data.distributions(result),
    }
    return render(
        "report.html",
        result=result,
        rows=rows(result.targets, order),
        promises=tuple(promises(result)),
        kinds=sorted({kind for target in result.targets for kind in target.failures}),
        settings=tuple(settings(result)),
        command=shlex.join(command(result)),
        colors={target.target: color_of(target.target, order) for target in result.targets},
        figure=figure_text,
        charts=charts,
        styles=(inlined("vendor/uplot/uPlot.min.css"), inlined("page.css")),
        scripts=(inlined("vendor/uplot/uPlot.iife.min.js"), inlined("charts.js"), inlined("report.js")),
    )


def promises(result: RunResult) -> Iterator[Promise]:
    """What the SLA of the run promised, next to what was measured; nothing without SLA."""
    if result.sla is None:
        return
    for figure in _JUDGED:
        limit = getattr(result.sla, figure.field)
        if limit is not None:
            yield Promise(
                figure.what,
                f"{figure.bound} {figure_text(limit)} {figure.unit}",
                tuple(_verdict(figure, target) for target in result.targets),
            )


def _verdict(figure: _Judged, target: TargetResult) -> Verdict:
    miss = next((miss for miss in target.missed if miss.what == figure.field), None)
    measured = figure.measure(target) if miss is None else miss.measured
    return Verdict(kept=miss is None, measured=f"{figure_text(measured)} {figure.unit}")


def _failed_percent(target: TargetResult) -> Figure:
    return 100 * sum(target.failures.values()) / target.requests if target.requests else None


def _e2e_p99_s(target: TargetResult) -> Figure:
    return None if target.e2e_ms.p99 is None else target.e2e_ms.p99 / 1000


_JUDGED = (
    _Judged("ttft_ms", "TTFT, p95", "at most", "ms", lambda target: target.ttft_ms.p95),
    _Judged("tpot_ms", "TPOT, p95", "at most", "ms", lambda target: target.tpot_ms.p95),
    _Judged("p99_e2e_s", "End to end, p99", "at most", "s", _e2e_p99_s),
    _Judged("min_qps", "Requests", "at least", "/s", lambda target: target.requests_per_s),
    _Judged("max_failures_percent", "Failures", "at most", "%", _failed_percent),
)
