"""The report of a run: one HTML file that needs nothing but a browser."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from loadtest.statistics.results import RunResult
from loadtest.statistics.sla import Verdict, judge
from loadtest.statistics.timeline import Timeline
from loadtest.webui import chart_data
from loadtest.webui.command import command
from loadtest.webui.pages import inlined, render
from loadtest.webui.target_table import color_of, figure_text, rows
from loadtest.webui.wording import settings

# What is judged and in which unit, by the names of the limits.
_JUDGED: Final = {
    "ttft_ms": ("TTFT, p95", "at most", "ms"),
    "tpot_ms": ("TPOT, p95", "at most", "ms"),
    "p99_e2e_s": ("End to end, p99", "at most", "s"),
    "min_qps": ("Goodput", "at least", "/s"),
    "max_failures_percent": ("Failures", "at most", "%"),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a target measured, and whether it kept the promise; None where it could not be judged."""

    text: str
    kept: bool | None


@dataclass(frozen=True, slots=True)
class Promise:
    """One limit of the SLA; `measured` is in the order of the run's results."""

    what: str
    limit: str
    measured: tuple[Measured, ...]


def report_page(result: RunResult, timeline: Timeline | None) -> str:
    """The whole page as text; scripts and styles stand in it, and nothing is loaded from anywhere."""
    order = result.order
    charts = {
        "targets": chart_data.targets(order),
        "marks": chart_data.marks(result),
        "timeline": {} if timeline is None else chart_data.over_time(timeline),
        "distributions": chart_data.distributions(result),
    }
    return render(
        "report.html",
        result=result,
        rows=rows(result.rows, order),
        promises=tuple(promises(result)),
        kinds=sorted({kind for target in result.targets for kind in target.failures}),
        settings=tuple(settings(result)),
        command=shlex.join(command(result)),
        colors={target.target: color_of(target.target, order) for target in result.rows},
        figure=figure_text,
        charts=charts,
        styles=(inlined("vendor/uplot/uPlot.min.css"), inlined("page.css")),
        scripts=(inlined("vendor/uplot/uPlot.iife.min.js"), inlined("charts.js"), inlined("report.js")),
    )


def promises(result: RunResult) -> Iterator[Promise]:
    """What the SLA of the run promised, next to what was measured; nothing without SLA."""
    if result.sla is None:
        return
    verdicts = [{verdict.what: verdict for verdict in judge(target, result.sla)} for target in result.targets]
    for name, (what, bound, unit) in _JUDGED.items():
        limit = getattr(result.sla, name)
        if limit is not None:
            measured = tuple(_measured(of_target.get(name), unit) for of_target in verdicts)
            yield Promise(what, f"{bound} {figure_text(limit)} {unit}", measured)


def _measured(verdict: Verdict | None, unit: str) -> Measured:
    if verdict is None:
        return Measured("not judged", None)
    return Measured(f"{figure_text(verdict.measured)} {unit}", verdict.kept)
