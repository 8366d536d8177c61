"""The report's charts as SVG. The same report gives the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from tools.benchmark.spread import Spread
from tools.reporting.break_even import crossing, throughput_ratios
from tools.reporting.figures import Figure, LevelFigures
from tools.reporting.model import Report, RungReport

Latencies = Mapping[tuple[str, int], Sequence[float]]
"""End to end seconds of every answer, by rung and level."""

_MIB: Final = 1 << 20
# Okabe and Ito's colours, which people with colour blindness tell apart; shapes do it again.
_COLOURS: Final = ("#7f7f7f", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7")
_MARKERS: Final = ("o", "s", "D", "^", "v", "P", "X")
_STYLE: Final[Any] = {
    # Text stays text: small files, sharp, searchable.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.edgecolor": "#888888",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
}
_MOST_PANELS: Final = 3


def charts(report: Report, latencies: Latencies) -> dict[str, str]:
    """SVG of every chart that there are figures for, by name."""
    drawn = {
        "throughput": _against_concurrency(report, "tokens_per_s", "Throughput", "output tokens/s, all streams"),
        "ttft": _against_concurrency(report, "ttft_ms", "Time to first token (TTFT), median", "milliseconds"),
        "tpot": _against_concurrency(report, "tpot_ms", "Time per output token (TPOT), median", "milliseconds"),
        "break-even": _break_even(report),
        "latency-cdf": _latency_cdf(report, latencies),
        "memory": _memory(report),
    }
    return {name: svg for name, svg in drawn.items() if svg}


def inlined(svg: str, name: str) -> str:
    """The `<svg>` element alone, as wide as its place, with ids that no other chart of the page has."""
    element = svg[svg.index("<svg") :].strip()
    element = re.sub(r' (width|height)="[\d.]+pt"', "", element, count=2)
    return re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", element)


def _against_concurrency(report: Report, figure: Figure, title: str, unit: str) -> str:
    measured = [rung for rung in report.rungs if rung.levels]
    if not measured:
        return ""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for rung in measured:
            _line(axes, rung, report, lambda level: level.spread(figure))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _levels_axis(axes, report.settings.levels)
        _plain_numbers(axes.yaxis)
        axes.set_title(title)
        axes.set_ylabel(unit)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _svg(draw, (7.2, 3.8), title)


def _line(axes: Axes, rung: RungReport, report: Report, spread: Callable[[LevelFigures], Spread]) -> None:
    number = _number(rung, report)
    spreads = [spread(level) for level in rung.levels]
    medians = [found.median for found in spreads]
    below = [found.median - found.low for found in spreads]
    above = [found.high - found.median for found in spreads]
    axes.errorbar(
        [level.level for level in rung.levels],
        medians,
        yerr=[below, above],
        color=_COLOURS[number],
        marker=_MARKERS[number],
        markersize=5,
        linewidth=1.6,
        capsize=3,
        label=rung.facts.label,
    )


def _break_even(report: Report) -> str:
    curves = [
        (rung, rung.gains[-1].over, ratios)
        for rung in report.rungs
        if rung.facts.draft_tokens and len(ratios := throughput_ratios(rung.gains)) > 1
    ]
    if not curves:
        return ""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        axes.axhline(1.0, color="#888888", linewidth=1.0, linestyle="--")
        for rung, over, ratios in curves:
            number = _number(rung, report)
            medians = [ratio.median for ratio in ratios.values()]
            axes.errorbar(
                list(ratios),
                medians,
                yerr=[
                    [ratio.median - ratio.low for ratio in ratios.values()],
                    [ratio.high - ratio.median for ratio in ratios.values()],
                ],
                color=_COLOURS[number],
                marker=_MARKERS[number],
                markersize=5,
                linewidth=1.6,
                capsize=3,
                label=f"{rung.facts.label} / {over}"
                + (",\nsynthetic\nacceptance" if rung.facts.synthetic_length else ""),
            )
            found = crossing({level: ratio.median for level, ratio in ratios.items()})
            if found is not None:
                axes.axvline(found[0], color=_COLOURS[number], linewidth=1.0, linestyle=":")
                axes.annotate(f"{found[0]:.0f} streams", (found[0], 1.0), xytext=(6, 8), textcoords="offset points")
        axes.set_xscale("log", base=2)
        _levels_axis(axes, report.settings.levels)
        axes.set_title("Where speculation stops to pay")
        axes.set_ylabel("tokens/s with drafts, by without")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _svg(draw, (7.2, 3.4), "Break-even")


def _latency_cdf(report: Report, latencies: Latencies) -> str:
    levels = _spaced(sorted({level for _, level in latencies}))
    if not levels:
        return ""

    def draw(canvas: Canvas) -> None:
        panels = canvas.subplots(1, len(levels), sharey=True, squeeze=False)[0]
        for level, axes in zip(levels, panels, strict=True):
            for rung in report.rungs:
                seconds = sorted(latencies.get((rung.facts.label, level), ()))
                if seconds:
                    shares = [100 * (place + 1) / len(seconds) for place in range(len(seconds))]
                    number = _number(rung, report)
                    axes.step(seconds, shares, where="post", color=_COLOURS[number], label=rung.facts.label)
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis)
            axes.set_xlabel("seconds, end to end")
            axes.set_title(_streams(level))
        panels[0].set_ylabel("% of requests answered by then")
        panels[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))

    return _svg(draw, (3.1 * len(levels) + 1.0, 3.4), "Distribution of latencies")


def _memory(report: Report) -> str:
    known = [rung for rung in report.rungs if rung.peak_memory_bytes is not None]
    if not known:
        return ""

    def draw(canvas: Canvas) -> None:
        axes = canvas.subplots()
        sizes = [(rung.peak_memory_bytes or 0) / _MIB for rung in known]
        names = [rung.facts.label for rung in known]
        bars = axes.barh(names, sizes, color=[_COLOURS[_number(rung, report)] for rung in known], height=0.6)
        axes.bar_label(bars, [f"{size:,.0f}" for size in sizes], padding=4)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xlabel("MiB")
        axes.margins(x=0.12)
        axes.set_title("Peak memory of the engine")

    return _svg(draw, (7.2, 0.7 + 0.42 * len(known)), "Peak memory")


def _number(rung: RungReport, report: Report) -> int:
    labels = [other.facts.label for other in report.rungs]
    return labels.index(rung.facts.label) % len(_COLOURS)


def _levels_axis(axes: Axes, levels: Sequence[int]) -> None:
    axes.set_xticks(list(levels), [str(level) for level in levels])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("concurrent streams")


def _plain_numbers(axis: Axis) -> None:
    """1, 2, 5, 10, ... on a logarithmic axis, without exponents."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _streams(level: int) -> str:
    return "1 stream" if level == 1 else f"{level} streams"


def _spaced(levels: Sequence[int]) -> list[int]:
    """All levels, or the first, the middle one and the last of many."""
    if len(levels) <= _MOST_PANELS:
        return list(levels)
    return [levels[0], levels[len(levels) // 2], levels[-1]]


def _svg(draw: Callable[[Canvas], None], size: tuple[float, float], salt: str) -> str:
    # Ids are hashes: of two charts in one page they must not be the same.
    with mpl.rc_context(_STYLE | {"svg.hashsalt": salt}):
        canvas = Canvas(figsize=size, layout="constrained")
        draw(canvas)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None})
    # Without the doctype and the metadata, which are nothing but addresses elsewhere.
    svg = re.sub(r"<!DOCTYPE.*?>\s*", "", out.getvalue(), flags=re.DOTALL)
    return "".join(_lines(re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)))


def _lines(svg: str) -> Iterator[str]:
    return (f"{line.rstrip()}\n" for line in svg.splitlines())
