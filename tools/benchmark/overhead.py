"""What tritonserver and the backend cost: the same engine bare and served, by turns, in one run.

Both engines are loaded all the time, with the same arguments and environment, and only one of them works: vLLM sleeps
while it has no request. They are measured in pairs, so that what else the machine does falls on both alike, and every
second pair begins with the other side.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict

from tools.artifacts.provision import provide_for
from tools.backends.process import engine_environment
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.client.server_info import ServerInfo
from tools.serving.backend_directory import ServerSoftware
from tools.serving.command import server_environment
from tools.serving.preparation import needed_artifacts
from tools.serving.server import Server
from tools.spec.profile import Profile

from .child import Child
from .deployment import Report, flood_process, serving
from .figures import Figures, FigureTable
from .machine import Machine
from .pairs import Measure, by_turns
from .repository import newest_arguments, vllm_model, write_model
from .running import RunningInstance
from .spread import Spread
from .workload import Load, ServedLoad, Tally

# Loading a large model for the first time takes minutes, compilation included.
_LOAD_LIMIT_S = 1800.0
_PATIENCE_S = 600.0
# Threads of an engine that has just finished spin for a while before they sleep; the other side must not meet them.
_PAUSE_S = 0.5
# Requests of a concurrency at least, on each side and in each repeat: with few streams by more pairs, so that a machine
# whose speed drifts falls on both sides alike. One TTFT alone says little.
_LEAST_REQUESTS = 8
# The first ids are special tokens in most vocabularies.
_FIRST_ORDINARY_TOKEN = 256


class OverheadSettings(BaseModel):
    """`tokens` and `prompt_tokens` are per request; `streams` requests start at once, on each side of a pair.

    One pair in each of `repeats`; with few streams as many as make `_LEAST_REQUESTS` requests.
    """

    model_config = ConfigDict(frozen=True)

    profile: str
    model: str
    streams: tuple[int, ...]
    tokens: int
    prompt_tokens: int
    repeats: int


class OverheadRow(BaseModel):
    """One concurrency. `ratio` (served over bare) and `added_ttft_ms` are taken pair by pair, TTFT is each median's."""

    model_config = ConfigDict(frozen=True)

    streams: int
    bare_tokens_per_s: Spread
    served_tokens_per_s: Spread
    ratio: Spread
    bare_ttft_ms: Spread
    served_ttft_ms: Spread
    added_ttft_ms: Spread


class OverheadReport(BaseModel):
    """Everything that was measured, on what, and with which engine arguments."""

    model_config = ConfigDict(frozen=True)

    machine: Machine
    settings: OverheadSettings
    engine_arguments: dict[str, object]
    rows: tuple[OverheadRow, ...]


@dataclass(frozen=True)
class _Pair:
    bare: Tally
    served: Tally


def bench_overhead(
    profile: Profile, settings: OverheadSettings, layout: Layout, report: Report, port_base: int | None = None
) -> OverheadReport:
    """Load both engines and measure them by turns. `report` gets each step.

    Raises BenchmarkError when an engine does not load or a measurement fails, ServingError when the server cannot be
    started, ArtifactError when the model is neither there nor can be made.
    """
    model = vllm_model(profile, settings.model)
    _, arguments = newest_arguments(profile, model)
    for path in needed_artifacts(profile, [model]):
        provide_for(profile, path, layout, report)
    with tempfile.TemporaryDirectory(prefix="ladder-bench-") as name:
        folder = Path(name)
        write_model(folder / "models", profile, model)
        with (
            serving(folder / "models", (model,), port_base, layout, report) as server,
            flood_process(layout, folder / "flood.log") as flood,
            _bare_process(profile, model, server, layout, folder / "bare.log") as bare,
        ):
            report("loading the bare engine")
            bare.ask(json.dumps(arguments), _LOAD_LIMIT_S)
            with ServerInfo.at(server.address.endpoint(Protocol.GRPC)) as info:
                machine = Machine.here(info.metadata().version)
            rows = measure_pairs(
                settings,
                profile.model.vocab_size,
                lambda load: bare.measure(load, _PATIENCE_S),
                lambda load: flood.measure(_served(load, server, model), _PATIENCE_S),
                report,
            )
    return OverheadReport(
        machine=machine, settings=settings.model_copy(update={"model": model}), engine_arguments=arguments, rows=rows
    )


def _bare_process(profile: Profile, model: str, server: Server | RunningInstance, layout: Layout, log: Path) -> Child:
    """The bare engine, started as the stub starts its own: same interpreter, folder and environment."""
    variables = server_environment(server.instance, ServerSoftware.of(layout), layout)
    own = profile.environment_of(profile.enabled_variants[model])
    environment = engine_environment(own, layout.home, variables)
    command = [environment["LADDER_ENGINE_PYTHON"], "-m", "tools.benchmark.bare"]
    return Child(command, Path(environment["LADDER_HOME"]), environment, log)


def _served(load: Load, server: Server | RunningInstance, model: str) -> ServedLoad:
    # One call per request, as ordinary clients make them.
    return ServedLoad(load=load, port=server.address.grpc_port, model=model, connections=load.streams)


def measure_pairs(
    settings: OverheadSettings, vocab_size: int, bare: Measure, served: Measure, report: Report
) -> tuple[OverheadRow, ...]:
    """Rows of the report, from two ways to run a load."""
    loads = _Loads(settings, vocab_size)
    for streams in settings.streams:
        report(f"warming up, {streams} streams")
        load = loads.next(streams)
        bare(load)
        served(load)
    pairs: defaultdict[int, list[_Pair]] = defaultdict(list)
    for repeat in range(1, settings.repeats + 1):
        for streams in settings.streams:
            report(f"repeat {repeat} of {settings.repeats}, {streams} streams")
            for _ in range(math.ceil(_LEAST_REQUESTS / streams)):
                first = len(pairs[streams]) % 2 == 0
                tallies = by_turns(loads.next(streams), bare, served, first_begins=first, pause_s=_PAUSE_S)
                pairs[streams].append(_Pair(*tallies))
    return tuple(_row(streams, measured) for streams, measured in pairs.items())


class _Loads:
    """Loads whose prompts no load before had: neither side finds anything in its prefix cache."""

    def __init__(self, settings: OverheadSettings, vocab_size: int) -> None:
        self._settings = settings
        self._vocab_size = vocab_size
        self._random = random.Random(0)  # noqa: S311 - the same prompts in every run

    def next(self, streams: int) -> Load:
        first = min(_FIRST_ORDINARY_TOKEN, self._vocab_size - 1)
        prompts = tuple(
            tuple(self._random.randrange(first, self._vocab_size) for _ in range(self._settings.prompt_tokens))
            for _ in range(streams)
        )
        return Load(streams=streams, tokens=self._settings.tokens, prompts=prompts)


def _row(streams: int, pairs: Sequence[_Pair]) -> OverheadRow:
    def spread(value: Callable[[_Pair], float]) -> Spread:
        return Spread.of([value(pair) for pair in pairs])

    return OverheadRow(
        streams=streams,
        bare_tokens_per_s=spread(lambda pair: _rate(pair.bare)),
        served_tokens_per_s=spread(lambda pair: _rate(pair.served)),
        ratio=spread(lambda pair: _rate(pair.served) / _rate(pair.bare)),
        bare_ttft_ms=spread(lambda pair: _ttft_ms(pair.bare)),
        served_ttft_ms=spread(lambda pair: _ttft_ms(pair.served)),
        added_ttft_ms=spread(lambda pair: _ttft_ms(pair.served) - _ttft_ms(pair.bare)),
    )


def _rate(tally: Tally) -> float:
    return tally.tokens / tally.seconds


def _ttft_ms(tally: Tally) -> float:
    return median(tally.ttft_s) * 1e3


def overhead_figures(report: OverheadReport) -> Figures:
    """The report's table."""
    settings = report.settings
    table = FigureTable(
        f"{settings.model}: the bare engine, and the same engine through Triton",
        (
            "streams", "bare tokens/s", "Triton tokens/s", "ratio", "bare TTFT ms", "Triton TTFT ms", "added TTFT ms",
        ),
        [
            (
                str(row.streams),
                f"{row.bare_tokens_per_s.median:,.1f}",
                f"{row.served_tokens_per_s.median:,.1f}",
                row.ratio.text(3),
                f"{row.bare_ttft_ms.median:,.1f}",
                f"{row.served_ttft_ms.median:,.1f}",
                row.added_ttft_ms.text(1),
            )
            for row in report.rows
        ],
    )  # fmt: skip
    return Figures(
        [table],
        [
            f'Profile "{settings.profile}", {settings.prompt_tokens} prompt and {settings.tokens} output tokens, '
            f"greedy, streaming over gRPC; medians of {settings.repeats} pairs measured by turns, or of as many as had "
            f"{settings.repeats * _LEAST_REQUESTS} requests; ratio and added TTFT pair by pair (lowest-highest). TTFT "
            "is the median of a pair's requests.",
            report.machine.text(),
        ],
    )
