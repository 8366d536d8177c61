"""The plan in a terminal: tables, bars, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.planning.bars import COLOURS, FREE, OTHERS, Chart, cells, chart_of
from tools.planning.engines import Kind
from tools.planning.plan import EnginePlan, MemoryPlan, TensorParallelOption
from tools.planning.units import GIB, gib

BAR_CELLS: Final = 60

# Told apart without colour too.
_GLYPHS: Final = {
    Kind.WEIGHTS.value: "█",
    Kind.DRAFT.value: "▓",
    Kind.ACTIVATIONS.value: "▒",
    Kind.GRAPHS.value: "%",
    Kind.RUNTIME.value: "░",
    Kind.CONTEXT.value: "=",
    Kind.KV_CACHE.value: "#",
    OTHERS: "x",
    FREE: "·",
}

_COLUMNS: Final = (
    ("weights", (Kind.WEIGHTS,)),
    ("draft", (Kind.DRAFT,)),
    ("activations", (Kind.ACTIVATIONS,)),
    ("graphs", (Kind.GRAPHS,)),
    ("runtime", (Kind.RUNTIME, Kind.CONTEXT)),
    ("KV cache", (Kind.KV_CACHE,)),
)

_COUNTED: Final = (
    "Weights, draft head and KV cache are counted. Activations, CUDA graphs and runtime are estimates: vLLM measures "
    "them when it starts, and the KV cache gets what is left. tools/planning/README.md has the formulas."
)
_BASELINE: Final = (
    "transformers takes its cache as it needs it: shown is a full batch in which every request has the whole context."
)


def render(plan: MemoryPlan) -> Iterator[RenderableType]:
    """Everything to print, from the parts to the verdict."""
    yield _memory(plan)
    yield from _bars(chart_of(plan))
    yield Text()
    yield _capacity(plan)
    if any(engine.tensor_parallel for engine in plan.engines):
        yield from _tensor_parallel(plan)
    yield Text(_COUNTED)
    if any(engine.share is None and not engine.tensor_parallel for engine in plan.engines):
        yield Text(_BASELINE)
    yield from _verdict(plan)


def _memory(plan: MemoryPlan) -> Table:
    table = _table(f"{plan.profile} on {plan.device} ({gib(plan.total_bytes)}), in GiB")
    columns = [
        (heading, kinds)
        for heading, kinds in _COLUMNS
        if any(kind.value in engine.parts for kind in kinds for engine in plan.engines)
    ]
    for heading in (*(heading for heading, _ in columns), "all"):
        table.add_column(heading, justify="right")
    for engine in plan.engines:
        sizes = [sum(engine.parts.get(kind.value, 0) for kind in kinds) for _, kinds in columns]
        table.add_row(
            engine.label, *(f"{size / GIB:.2f}" if size else "" for size in sizes), f"{engine.total / GIB:.2f}"
        )
    return table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    table.add_column("engine", no_wrap=True)
    return table


def _bars(chart: Chart) -> Iterator[Text]:
    width = max(len(bar.label) for bar in chart.bars)
    end = round(chart.limit * BAR_CELLS / chart.scale)
    for bar in chart.bars:
        line = Text(f"{bar.label:<{width}} ")
        counts = cells([segment.size for segment in bar.segments], chart.scale, BAR_CELLS)
        for segment, count in zip(bar.segments, counts, strict=True):
            line.append(_GLYPHS[segment.name] * count, style=COLOURS[segment.name])
        yield line
    if chart.limit < chart.scale:
        yield Text(f"{f'{gib(chart.limit)} is all there is ^':>{width + 1 + end}}", style="red")
    legend = Text()
    for name in chart.names:
        legend.append(_GLYPHS[name], style=COLOURS[name])
        legend.append(f" {name}  ")
    yield legend


def _capacity(plan: MemoryPlan) -> Table:
    table = _table("What runs at once")
    headings = ["context", "fit at once", "allowed", "KiB a token", "tokens in cache"]
    if plan.accelerator == "cuda":
        headings += ["share now", "advised"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for engine in plan.engines:
        row = [
            f"{engine.context:,}",
            str(engine.sequences),
            str(engine.max_num_seqs),
            f"{engine.kv_token_bytes / 1024:g}",
            f"{engine.kv_cache_tokens:,}",
        ]
        if plan.accelerator == "cuda":
            row += [_share(engine), "" if engine.advised_share is None else f"{engine.advised_share:g}"]
        table.add_row(engine.label, *row)
    return table


def _share(engine: EnginePlan) -> str:
    if engine.share is None:
        return ""
    return f"{engine.share:g}{' (default)' if engine.share_is_default else ''}"


def _tensor_parallel(plan: MemoryPlan) -> Iterator[RenderableType]:
    """The degrees that work as a table, and below it those that vLLM refuses."""
    table = _table("Tensor parallel: the same share of several GPUs")
    for heading in ("GPUs", "weights each", "KV cache each", "tokens in cache", "sequences"):
        table.add_column(heading, justify="right")
    refused: dict[tuple[int, str], list[str]] = {}
    for engine in plan.engines:
        label = engine.label
        for option in engine.tensor_parallel:
            if option.problem:
                refused.setdefault((option.degree, option.problem), []).append(engine.label)
            else:
                table.add_row(label, str(option.degree), *_figures(option))
                label = ""
    yield table
    for (degree, problem), labels in refused.items():
        yield Text(f"not over {degree} GPUs: {', '.join(labels)} ({problem})")


def _figures(option: TensorParallelOption) -> tuple[str, ...]:
    return (
        f"{option.weights_bytes / GIB:.2f}",
        f"{option.kv_cache_bytes / GIB:.2f}",
        f"{option.kv_cache_tokens:,}",
        str(option.sequences),
    )


def _verdict(plan: MemoryPlan) -> Iterator[Text]:
    if plan.fits:
        yield Text(f"Fits: {gib(plan.free_bytes)} of {gib(plan.total_bytes)} stay free.", style="green")
        return
    yield Text("Does not fit:", style="red")
    yield from (Text(f"  {problem}") for problem in plan.problems)
    yield Text("What would:")
    yield from (Text(f"  {remedy}") for remedy in plan.remedies)
