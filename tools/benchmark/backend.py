"""What the vLLM backend carries, measured with an engine that generates without computing.

tritonserver, the stub, the engine process and the sockets between them are the real ones, and so is the model's config,
but for one parameter that chooses the mock engine. What is measured is therefore everything but the model.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.client.server_info import ServerInfo
from tools.spec.profile import Profile

from .cpu_time import ROLES
from .deployment import Report, flood_process, serving
from .figures import Figures, FigureTable
from .machine import Machine
from .mock_load import WARM_UP_S, MockSettings, measure_with
from .pairs import Measure
from .repository import vllm_model, write_mock_model
from .spread import Spread
from .workload import Load, Tally


class BackendRow(BaseModel):
    """One concurrency. CPU time is in microseconds, by role: stub, server, engine, client."""

    model_config = ConfigDict(frozen=True)

    streams: int
    tokens_per_s: Spread
    responses_per_s: Spread
    tokens_per_response: Spread
    cpu_us_per_token: dict[str, Spread]
    cpu_us_per_response: dict[str, Spread]


class BackendReport(BaseModel):
    """Everything that was measured, and on what."""

    model_config = ConfigDict(frozen=True)

    machine: Machine
    settings: MockSettings
    rows: tuple[BackendRow, ...]


def bench_backend(
    profile: Profile, settings: MockSettings, layout: Layout, report: Report, port_base: int | None = None
) -> BackendReport:
    """Serve the mock and measure it. `report` gets each step.

    Raises BenchmarkError when a measurement fails, ServingError when the server cannot be started.
    """
    model = vllm_model(profile)
    arguments = {"step_s": settings.step_s, "max_num_seqs": max(settings.streams)}
    with tempfile.TemporaryDirectory(prefix="ladder-bench-") as name:
        folder = Path(name)
        write_mock_model(folder / "models", profile, model, arguments)
        with (
            serving(folder / "models", (model,), port_base, layout, report) as server,
            flood_process(layout, folder / "flood.log") as flood,
        ):
            with ServerInfo.at(server.address.endpoint(Protocol.GRPC)) as info:
                machine = Machine.here(info.metadata().version)
            rows = _measure(settings, measure_with(flood, server, model), report)
    return BackendReport(machine=machine, settings=settings, rows=rows)


def _measure(settings: MockSettings, measure: Measure, report: Report) -> tuple[BackendRow, ...]:
    tallies: defaultdict[int, list[Tally]] = defaultdict(list)
    report("warming up")
    measure(Load(streams=max(settings.streams), tokens=settings.tokens, seconds=WARM_UP_S))
    # Repeats are the outer loop: what else the machine does meanwhile then falls on every concurrency alike.
    for repeat in range(1, settings.repeats + 1):
        for streams in settings.streams:
            report(f"repeat {repeat} of {settings.repeats}, {streams} streams")
            tallies[streams].append(measure(Load(streams=streams, tokens=settings.tokens, seconds=settings.seconds)))
    return tuple(_row(streams, measured) for streams, measured in tallies.items())


def _row(streams: int, tallies: Sequence[Tally]) -> BackendRow:
    def spread(value: Callable[[Tally], float]) -> Spread:
        return Spread.of([value(tally) for tally in tallies])

    def cpu(role: str, unit: Callable[[Tally], int]) -> Spread:
        return spread(lambda tally: tally.cpu_s[role] / max(1, unit(tally)) * 1e6)

    return BackendRow(
        streams=streams,
        tokens_per_s=spread(lambda tally: tally.tokens / tally.seconds),
        responses_per_s=spread(lambda tally: tally.responses / tally.seconds),
        tokens_per_response=spread(lambda tally: tally.tokens / max(1, tally.responses)),
        cpu_us_per_token={role: cpu(role, lambda tally: tally.tokens) for role in ROLES},
        cpu_us_per_response={role: cpu(role, lambda tally: tally.responses) for role in ROLES},
    )


def backend_figures(report: BackendReport) -> Figures:
    """The report's tables: throughput, and where the CPU time goes."""
    settings = report.settings
    pace = f"one step each {settings.step_s * 1e3:g} ms" if settings.step_s else "steps as fast as it can"
    throughput = FigureTable(
        "Backend with a mock engine: throughput",
        ("streams", "tokens/s", "responses/s", "tokens per response"),
        [
            (str(row.streams), row.tokens_per_s.text(), row.responses_per_s.text(), row.tokens_per_response.text(1))
            for row in report.rows
        ],
    )
    return Figures(
        [
            throughput,
            _cost_table("token", 1, {row.streams: row.cpu_us_per_token for row in report.rows}),
            _cost_table("response", 0, {row.streams: row.cpu_us_per_response for row in report.rows}),
        ],
        [
            f"Engine: {pace}; {settings.tokens} tokens a request; median of {settings.repeats} windows of "
            f"{settings.seconds:g} s (lowest-highest). CPU time is user and system time of all threads; server is "
            "tritonserver, client the load generator.",
            report.machine.text(),
        ],
    )


def _cost_table(unit: str, digits: int, costs: Mapping[int, Mapping[str, Spread]]) -> FigureTable:
    return FigureTable(
        f"CPU time per {unit} in microseconds, medians",
        ("streams", *ROLES, "sum"),
        [
            (
                str(streams),
                *(f"{by_role[role].median:,.{digits}f}" for role in ROLES),
                f"{sum(by_role[role].median for role in ROLES):,.{digits}f}",
            )
            for streams, by_role in costs.items()
        ],
    )
