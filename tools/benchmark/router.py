"""What the release router costs: the same mock engine asked directly and through `chat`, by turns, in one run.

tritonserver, the stubs, the sockets and the router's tokenizer are the real ones; only the engines generate without
computing. There are two of them. An engine without pause shows what the router adds to the time to the first token: one
that steps at a pace lets a request wait for its next step, and what came before is lost in that wait. An engine at a
real one's pace shows what is left of the throughput.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from google.protobuf import text_format
from pydantic import BaseModel, ConfigDict
from tritonclient.grpc import model_config_pb2

from tools.artifacts.provision import provide_for
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.client.server_info import ServerInfo
from tools.release.file import FILE_NAME, write_release
from tools.rendering.plan import ENSEMBLES, ROUTER, rendered_files
from tools.serving.server import Server
from tools.spec.profile import Profile
from tools.spec.release import Condition, Release, ReleaseTarget, Route, TokenCount, WeightedTarget

from .child import Child
from .cpu_time import ENGINE, SERVER, STUBS, processes_by_role
from .deployment import Report, flood_process, serving
from .figures import Figures, FigureTable
from .machine import Machine
from .pairs import Measure, by_turns
from .repository import newest_arguments, vllm_model, write_mock_model
from .spread import Spread
from .workload import TEXT_PROMPT, Load, ServedLoad, Tally

_CONNECTIONS = 8
_PATIENCE_S = 120.0
_PAUSE_S = 0.1
_WARM_UP_S = 0.5
_TTFT_TOKENS = 2
# Prompts longer than this are for the engine that has a pace; the short one has nine words.
_LONG_PROMPT = 40
_LONG_TEXT = " ".join([TEXT_PROMPT] * 8)


class RouterSettings(BaseModel):
    """`step_s` is the pace of the engine whose throughput is measured, `tokens` are those of its requests."""

    model_config = ConfigDict(frozen=True)

    profile: str
    streams: tuple[int, ...]
    tokens: int
    step_s: float
    seconds: float
    repeats: int


class RouterTtft(BaseModel):
    """One stream, medians of a pair's requests in milliseconds; `added` is taken pair by pair."""

    model_config = ConfigDict(frozen=True)

    direct_ms: Spread
    routed_ms: Spread
    added_ms: Spread


class RouterRow(BaseModel):
    """One concurrency. `ratio` (routed over direct) is taken pair by pair; CPU time is that of all server processes."""

    model_config = ConfigDict(frozen=True)

    streams: int
    direct_tokens_per_s: Spread
    routed_tokens_per_s: Spread
    ratio: Spread
    direct_cpu_us_per_token: Spread
    routed_cpu_us_per_token: Spread


class RouterReport(BaseModel):
    """Everything that was measured, and on what."""

    model_config = ConfigDict(frozen=True)

    machine: Machine
    settings: RouterSettings
    ttft: RouterTtft
    rows: tuple[RouterRow, ...]


def bench_router(
    profile: Profile, settings: RouterSettings, layout: Layout, report: Report, port_base: int | None = None
) -> RouterReport:
    """Serve the mocks and the router and measure them. `report` gets each step.

    Raises BenchmarkError when a measurement fails, ServingError when the server cannot be started, ArtifactError when
    the tokenizer's model is neither there nor can be made.
    """
    provide_for(profile, profile.artifacts.bf16.path, layout, report)
    paced = vllm_model(profile)
    instant = f"{paced}_instant"
    with tempfile.TemporaryDirectory(prefix="ladder-bench-") as name:
        folder = Path(name)
        _write_models(folder / "models", profile, settings, paced, instant)
        with (
            serving(folder / "models", [paced, instant, ROUTER], port_base, layout, report) as server,
            flood_process(layout, folder / "flood.log") as flood,
        ):
            with ServerInfo.at(server.address.endpoint(Protocol.GRPC)) as info:
                machine = Machine.here(info.metadata().version)
            routed = _measure(flood, server, ROUTER)
            ttft = measure_ttft(settings, _measure(flood, server, instant), routed, report)
            rows = measure_rows(settings, _measure(flood, server, paced), routed, report)
    return RouterReport(machine=machine, settings=settings, ttft=ttft, rows=rows)


def _write_models(folder: Path, profile: Profile, settings: RouterSettings, paced: str, instant: str) -> None:
    places = max(settings.streams)
    write_mock_model(folder, profile, paced, {"step_s": settings.step_s, "max_num_seqs": places})
    write_mock_model(folder / "other", profile, paced, {"max_num_seqs": places})
    (folder / "other" / paced).rename(folder / instant)
    (folder / "other").rmdir()
    _rename(folder / instant / "config.pbtxt", instant)
    for path, text in rendered_files(profile).items():
        if path.is_relative_to(ENSEMBLES / ROUTER):
            file = folder / path.relative_to(ENSEMBLES)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    version, _ = newest_arguments(profile, paced)
    write_release(folder / ROUTER / FILE_NAME, _release(paced, instant, version))


def _rename(config_file: Path, name: str) -> None:
    config = text_format.Parse(config_file.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    config.name = name
    config_file.write_text(text_format.MessageToString(config), encoding="utf-8")


def _release(paced: str, instant: str, version: int) -> Release:
    def all_to(model: str) -> tuple[WeightedTarget, ...]:
        return (WeightedTarget(**ReleaseTarget(model=model, version=version).model_dump(), weight=100.0),)

    long_prompts = Condition(prompt_tokens=TokenCount(over=_LONG_PROMPT))
    return Release(
        routes=(
            Route(name="paced", when=long_prompts, targets=all_to(paced)),
            Route(name="instant", targets=all_to(instant)),
        )
    )


def _measure(flood: Child, server: Server, model: str) -> Measure:
    def measure(load: Load) -> Tally:
        order = ServedLoad(
            load=load,
            port=server.address.grpc_port,
            model=model,
            connections=_CONNECTIONS,
            processes=processes_by_role(server.instance.id),
        )
        return flood.measure(order, load.seconds + _PATIENCE_S)

    return measure


def measure_ttft(settings: RouterSettings, direct: Measure, routed: Measure, report: Report) -> RouterTtft:
    """What is added to the time to the first token, from two ways to run a load on the engine without pause."""
    load = Load(streams=1, tokens=_TTFT_TOKENS, seconds=settings.seconds)
    pairs = _pairs(settings, load, direct, routed, report)
    return RouterTtft(
        direct_ms=Spread.of([_ttft_ms(one) for one, _ in pairs]),
        routed_ms=Spread.of([_ttft_ms(other) for _, other in pairs]),
        added_ms=Spread.of([_ttft_ms(other) - _ttft_ms(one) for one, other in pairs]),
    )


def measure_rows(settings: RouterSettings, direct: Measure, routed: Measure, report: Report) -> tuple[RouterRow, ...]:
    """Throughput by concurrency, from two ways to run a load on the engine at a pace."""
    loads = [
        Load(streams=streams, tokens=settings.tokens, seconds=settings.seconds, text=_LONG_TEXT)
        for streams in settings.streams
    ]
    return tuple(_row(load.streams, _pairs(settings, load, direct, routed, report)) for load in loads)


def _pairs(
    settings: RouterSettings, load: Load, direct: Measure, routed: Measure, report: Report
) -> list[tuple[Tally, Tally]]:
    short = load.model_copy(update={"seconds": _WARM_UP_S})
    report(f"warming up, {load.streams} streams")
    direct(short)
    routed(short)
    pairs = []
    for repeat in range(1, settings.repeats + 1):
        report(f"pair {repeat} of {settings.repeats}, {load.streams} streams")
        pairs.append(by_turns(load, direct, routed, first_begins=repeat % 2 == 1, pause_s=_PAUSE_S))
    return pairs


def _row(streams: int, pairs: Sequence[tuple[Tally, Tally]]) -> RouterRow:
    def spread(value: Callable[[Tally], float], side: int) -> Spread:
        return Spread.of([value(pair[side]) for pair in pairs])

    return RouterRow(
        streams=streams,
        direct_tokens_per_s=spread(_rate, 0),
        routed_tokens_per_s=spread(_rate, 1),
        ratio=Spread.of([_rate(routed) / _rate(direct) for direct, routed in pairs]),
        direct_cpu_us_per_token=spread(_cpu_us, 0),
        routed_cpu_us_per_token=spread(_cpu_us, 1),
    )


def _rate(tally: Tally) -> float:
    return tally.tokens / tally.seconds


def _ttft_ms(tally: Tally) -> float:
    return median(tally.ttft_s) * 1e3


def _cpu_us(tally: Tally) -> float:
    return sum(tally.cpu_s[role] for role in (STUBS, SERVER, ENGINE)) / max(1, tally.tokens) * 1e6


def router_figures(report: RouterReport) -> Figures:
    """The report's tables."""
    settings, ttft = report.settings, report.ttft
    added = FigureTable(
        "Release router: time to the first token, 1 stream, an engine without pause",
        ("direct ms", "through chat ms", "added ms"),
        [(ttft.direct_ms.text(2), ttft.routed_ms.text(2), ttft.added_ms.text(2))],
    )
    throughput = FigureTable(
        f"Release router: throughput, an engine that steps each {settings.step_s * 1e3:g} ms",
        ("streams", "direct tok/s", "chat tok/s", "ratio", "direct CPU us", "chat CPU us"),
        [
            (
                str(row.streams),
                f"{row.direct_tokens_per_s.median:,.0f}",
                f"{row.routed_tokens_per_s.median:,.0f}",
                row.ratio.text(3),
                f"{row.direct_cpu_us_per_token.median:,.0f}",
                f"{row.routed_cpu_us_per_token.median:,.0f}",
            )
            for row in report.rows
        ],
    )
    return Figures(
        [added, throughput],
        [
            f"Medians of {settings.repeats} pairs of windows of {settings.seconds:g} s, measured by turns; added TTFT "
            f"and ratio pair by pair (lowest-highest). {settings.tokens} tokens a request, streamed over gRPC. "
            "CPU time is that of tritonserver, all stubs and all engines, per token.",
            report.machine.text(),
        ],
    )
