"""What the release router costs: the same mock engine asked directly and through `chat`, by turns, in one run.

tritonserver, the stubs, the sockets and the router's tokenizer are the real ones; only the engine generates without
computing, at a real one's pace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict

from tools.artifacts.provision import provide_for
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.client.server_info import ServerInfo
from tools.rendering.plan import ROUTER
from tools.spec.profile import Profile

from .cpu_time import ENGINE, SERVER, STUBS
from .deployment import Report, flood_process, serving
from .figures import Figures, FigureTable
from .machine import Machine
from .mock_load import WARM_UP_S, MockSettings, measure_with
from .pairs import Measure, by_turns
from .repository import vllm_model, write_mock_model, write_router
from .spread import Spread
from .workload import Load, Tally

_PAUSE_S = 0.1
_TTFT_TOKENS = 2


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
    settings: MockSettings
    ttft: RouterTtft
    rows: tuple[RouterRow, ...]


def bench_router(
    profile: Profile, settings: MockSettings, layout: Layout, report: Report, port_base: int | None = None
) -> RouterReport:
    """Serve the mocks and the router and measure them. `report` gets each step.

    Raises BenchmarkError when a measurement fails, ServingError when the server cannot be started, ArtifactError when
    the tokenizer's model is neither there nor can be made.
    """
    provide_for(profile, profile.artifacts.bf16.path, layout, report)
    model = vllm_model(profile)
    with tempfile.TemporaryDirectory(prefix="ladder-bench-") as name:
        folder = Path(name)
        arguments = {"step_s": settings.step_s, "max_num_seqs": max(settings.streams)}
        write_mock_model(folder / "models", profile, model, arguments)
        write_router(folder / "models", profile, model)
        with (
            serving(folder / "models", (model, ROUTER), port_base, layout, report) as server,
            flood_process(layout, folder / "flood.log") as flood,
        ):
            with ServerInfo.at(server.address.endpoint(Protocol.GRPC)) as info:
                machine = Machine.here(info.metadata().version)
            direct, routed = (measure_with(flood, server, name) for name in (model, ROUTER))
            ttft = measure_ttft(settings, direct, routed, report)
            rows = measure_rows(settings, direct, routed, report)
    return RouterReport(machine=machine, settings=settings, ttft=ttft, rows=rows)


def measure_ttft(settings: MockSettings, direct: Measure, routed: Measure, report: Report) -> RouterTtft:
    """What is added to the time to the first token, from two ways to run a load."""
    load = Load(streams=1, tokens=_TTFT_TOKENS, seconds=settings.seconds)
    pairs = _pairs(settings, load, direct, routed, report)
    return RouterTtft(
        direct_ms=Spread.of([_ttft_ms(one) for one, _ in pairs]),
        routed_ms=Spread.of([_ttft_ms(other) for _, other in pairs]),
        added_ms=Spread.of([_ttft_ms(other) - _ttft_ms(one) for one, other in pairs]),
    )


def measure_rows(settings: MockSettings, direct: Measure, routed: Measure, report: Report) -> tuple[RouterRow, ...]:
    """Throughput by concurrency, from two ways to run a load."""
    loads = [Load(streams=streams, tokens=settings.tokens, seconds=settings.seconds) for streams in settings.streams]
    return tuple(_row(load.streams, _pairs(settings, load, direct, routed, report)) for load in loads)


def _pairs(
    settings: MockSettings, load: Load, direct: Measure, routed: Measure, report: Report
) -> list[tuple[Tally, Tally]]:
    short = load.model_copy(update={"seconds": WARM_UP_S})
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
        "Release router: time to the first token, 1 stream",
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
