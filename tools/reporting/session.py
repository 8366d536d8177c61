"""A report from its order to its folder."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loadtest.workloads.model_tokenizer import FILE_NAME
from tools.benchmark.machine import Machine
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import try_lock
from tools.client.address import ServerAddress
from tools.evaluation.git_state import git_state
from tools.evaluation.results import Evaluation, GitState
from tools.rendering.plan import rendered_files
from tools.reporting.build import Configuration, rung_reports
from tools.reporting.cells import CELLS, CellRecord, CellStore, PlannedCell
from tools.reporting.config_diff import config_of
from tools.reporting.errors import ReportError
from tools.reporting.figures import Cell, CellFigures
from tools.reporting.fingerprint import CellKey, Surroundings, hash_of_artifact, hash_of_text
from tools.reporting.folder import REPORT, write_report
from tools.reporting.locust_cell import RunLoad
from tools.reporting.model import Report
from tools.reporting.rung_quality import quality_of
from tools.reporting.rungs import RungFacts, rungs_of, sizes_of
from tools.reporting.serving import IsolatedServers, RunningServer
from tools.reporting.settings import Settings
from tools.reporting.walk import Progress, Serve, Walk, Walked
from tools.serving.preparation import needed_artifacts, prepare
from tools.spec.profile import Profile

Serving = Callable[[Sequence[RungFacts]], tuple[Serve, str]]
"""How the rungs are served, and tritonserver's version. Raises ReportError when they cannot be."""


@dataclass(frozen=True)
class Order:
    """What to report on.

    Attributes:
        profile_name: as the command line named it.
        labels: of the rungs, empty for all that the profile serves.
        out: the report's folder; one that holds a report, or part of one, is continued.
        budget_s: no measurement is begun after this time; None for no limit.
    """

    profile_name: str
    profile: Profile
    settings: Settings
    labels: tuple[str, ...]
    out: Path
    evaluation: Evaluation | None = None
    budget_s: float | None = None


def make_report(order: Order, layout: Layout, serving: Serving, run_load: RunLoad, progress: Progress) -> Report:
    """Measure what is missing and write the report.

    Raises ReportError; OSError when the folder cannot be written. A KeyboardInterrupt leaves every finished cell.
    """
    require_report_folder(order.out)
    rungs = rungs_of(order.profile, layout, order.labels)
    serve, server_version = serving(rungs)
    started_at, machine, git = datetime.now(UTC), Machine.here(server_version), git_state(layout.home)
    surroundings = Surroundings.of(machine, git, layout.home, isolated=order.settings.isolated)
    turns = plan_turns(order, rungs, surroundings, layout)
    # Only now is anything written: what cannot be measured leaves no folder behind.
    with _alone_in(order.out):
        store = CellStore(order.out)
        walked = Walk(store, serve, run_load, progress, order.budget_s).walk(turns)
        report = _report(order, rungs, walked, store, machine, git, started_at, layout)
        write_report(report, order.out)
    return report


def running(port_base: int, settings: Settings) -> Serving:
    """The rungs on the server at a port base."""

    def serving(rungs: Sequence[RungFacts]) -> tuple[Serve, str]:
        server = RunningServer(ServerAddress.from_port_base(port_base), settings.protocol)
        return server, server.require(rungs)

    return serving


def isolated(order: Order, layout: Layout, port_base: int | None, say: Callable[[str], None]) -> Serving:
    """A server for each rung. Raises ServingError, ArtifactError and others of `prepare` when artifacts are missing."""

    def serving(rungs: Sequence[RungFacts]) -> tuple[Serve, str]:
        models = [rung.parsed_target.model for rung in rungs]
        prepare(order.profile, layout, say, models=models)
        servers = IsolatedServers(order.profile, order.settings.protocol, layout, say, port_base)
        # The version is that of the environment's lock, for no server runs yet.
        return servers, _locked_server(layout)

    return serving


def require_report_folder(out: Path) -> None:
    """Raises ReportError for a place that holds something else than a report."""
    if out.exists() and not out.is_dir():
        raise ReportError(f'"{out}" is a file: a report is a folder, name another with --out')
    if out.is_dir() and any(out.iterdir()) and not (out / REPORT).exists() and not (out / CELLS).is_dir():
        raise ReportError(f'"{out}" holds other things than a report: name a new or an empty folder with --out')


@contextlib.contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """Raises ReportError while another report is being written into the folder."""
    descriptor = try_lock(out / CELLS / "lock")
    if descriptor is None:
        raise ReportError(f'another ./ladder report is writing into "{out}": wait for it, or name another with --out')
    try:
        yield
    finally:
        os.close(descriptor)


def plan_turns(
    order: Order, rungs: Sequence[RungFacts], surroundings: Surroundings, layout: Layout
) -> list[list[PlannedCell]]:
    """The cells in the order they are measured in.

    Repeats take turns, so that what slows the machine for a while slows every rung; with a server for each rung they
    follow one another, for a start takes longer than a cell.
    """
    keys = _Keys(order, surroundings, layout)
    repeats = range(1, order.settings.repeats + 1)
    if order.settings.isolated:
        return [[keys.cell(rung, level, repeat) for repeat in repeats for level in _levels(order)] for rung in rungs]
    return [[keys.cell(rung, level, repeat) for level in _levels(order)] for repeat in repeats for rung in rungs]


class _Keys:
    """Cells with their keys; every artifact is hashed once."""

    def __init__(self, order: Order, surroundings: Surroundings, layout: Layout) -> None:
        self._order = order
        self._surroundings = surroundings
        self._files = rendered_files(order.profile)
        weights = order.profile.artifacts.bf16.path
        # Relative, so that the same checkout elsewhere has the same keys; load tests run in its root.
        self._tokenizer = weights if (layout.home / weights / FILE_NAME).is_file() else None
        self._hashes = {path: hash_of_artifact(layout.home / path) for path in needed_artifacts(order.profile)}

    def cell(self, rung: RungFacts, level: int, repeat: int) -> PlannedCell:
        target = rung.parsed_target
        key = CellKey(
            rung=rung.label,
            repeat=repeat,
            load=self._order.settings.load("", rung.target, level, repeat, self._tokenizer),
            workers=self._order.settings.workers_for(level, self._surroundings.cores),
            surroundings=self._surroundings,
            configuration=hash_of_text(config_of(target, self._files)),
            artifacts={path: self._hashes[path] for path in needed_artifacts(self._order.profile, [target.model])},
        )
        return PlannedCell(rung.label, target, level, repeat, key)


def _levels(order: Order) -> list[int]:
    return sorted(set(order.settings.levels))


def _report(
    order: Order,
    rungs: Sequence[RungFacts],
    walked: Walked,
    store: CellStore,
    machine: Machine,
    git: GitState,
    started_at: datetime,
    layout: Layout,
) -> Report:
    cells = [_cell(cell, record, walked, store) for cell, record in _in_order(walked, rungs)]
    profile, settings = order.profile, order.settings
    configuration = Configuration(
        accelerator=profile.target.accelerator,
        sizes=sizes_of(profile, layout),
        context=settings.input_tokens + settings.output_tokens,
        files=rendered_files(profile),
    )
    quality = {rung.label: quality_of(rung, order.evaluation, layout.home) for rung in rungs}
    return Report(
        started_at=started_at,
        seconds=sum(cell.seconds for cell in cells),
        command=command_of(order, git),
        profile=profile.name,
        model=profile.model.display_name,
        accelerator=configuration.accelerator,
        sizes=configuration.sizes,
        settings=settings,
        machine=machine,
        git=git,
        stale=dict(walked.stale),
        rungs=rung_reports(rungs, cells, configuration, quality),
        cells=tuple(cells),
    )


def _in_order(walked: Walked, rungs: Sequence[RungFacts]) -> Iterator[tuple[PlannedCell, CellRecord]]:
    place = {rung.label: number for number, rung in enumerate(rungs)}
    yield from sorted(walked.records.items(), key=lambda pair: (place[pair[0].rung], pair[0].level, pair[0].repeat))


def _cell(cell: PlannedCell, record: CellRecord, walked: Walked, store: CellStore) -> Cell:
    result = store.result(cell) if record.state == "measured" else None
    return Cell(
        rung=cell.rung,
        level=cell.level,
        repeat=cell.repeat,
        folder=f"{CELLS}/{cell.name}",
        state=record.state,
        reason=record.reason,
        seconds=record.seconds,
        reused=cell in walked.reused,
        figures=CellFigures.of(result.target) if result is not None else None,
        saturated=result.saturated if result is not None else (),
        drafting=record.drafting,
        peak_memory_bytes=record.peak_memory_bytes,
    )


def command_of(order: Order, git: GitState) -> str:
    """Command lines that make the report again; every option is written out, whatever the defaults become."""
    settings = order.settings
    words = [
        *("./ladder", "report", "--profile", order.profile_name),
        *(["--rungs", ",".join(order.labels)] if order.labels else []),
        *("--concurrency", ",".join(map(str, settings.levels))),
        *("--input-tokens", str(settings.input_tokens), "--output-tokens", str(settings.output_tokens)),
        *("--requests-per-stream", str(settings.requests_per_stream), "--min-requests", str(settings.min_requests)),
        *("--repeats", str(settings.repeats), "--seed", str(settings.seed)),
        *("--protocol", settings.protocol.value, "--deadline", f"{settings.deadline_s:g}"),
        *([] if settings.cell_s is None else ["--cell-seconds", str(settings.cell_s)]),
        *([] if settings.workers is None else ["--workers", str(settings.workers)]),
        *(["--isolate"] if settings.isolated else []),
    ]
    lines = [f"git checkout {git.commit}"] if git.commit else []
    if not settings.isolated:
        lines.append(f"./ladder up --detach --profile {shlex.quote(order.profile_name)}")
    return "\n".join([*lines, shlex.join(words)]) + "\n"


def _locked_server(layout: Layout) -> str:
    lock = (layout.locks / "server.txt").read_text(encoding="utf-8")
    return next((line.split()[0] for line in lock.splitlines() if line.startswith("nvidia-pytriton==")), "unknown")
