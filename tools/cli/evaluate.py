"""`./ladder eval`: reads the command line, shows progress, writes the report, sets the exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tools.benchmark.machine import Machine
from tools.bootstrap.layout import Layout
from tools.cli.connection import PortBaseOption, ProtocolOption, UrlOption, endpoint_from
from tools.client.address import Endpoint, ServerAddress
from tools.client.async_client import AsyncClient
from tools.client.errors import ClientError
from tools.client.server_info import ServerInfo
from tools.evaluation.errors import EvaluationError
from tools.evaluation.git_state import git_state
from tools.evaluation.recording import record_verdicts
from tools.evaluation.results import Evaluation, RungResult, Settings, Suite
from tools.evaluation.run import Evaluator, Questions
from tools.evaluation.table import evaluation_view
from tools.evaluation.targets import Served, Targets
from tools.evaluation.verdict import judge
from tools.serving.instance import Instance, InstanceFiles, known_port_bases
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile
from tools.spec.profile import Profile

_OUTSIDE: Final = 1
_COULD_NOT: Final = 2
_INTERRUPTED: Final = 130
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def register(app: typer.Typer) -> None:
    """Add the command `eval`."""
    app.command("eval")(evaluate)


def evaluate(
    artifacts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARTIFACT...",
            help="Models, as MODEL or MODEL:VERSION, or folders of artifacts.  [default: every ready rung]",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Name of a shipped profile, or path of a YAML file.  "
            f"[default: the server's own, or {DEFAULT_PROFILE}]"
        ),
    ] = None,
    suites: Annotated[str, typer.Option(metavar="A,B", help="What to measure.")] = ",".join(Suite),
    mmlu: Annotated[
        Path | None,
        typer.Option(
            "--mmlu", metavar="DIR", help="MMLU's CSV files: DIR/dev, DIR/test.  [default: a small set of ours]"
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option("--text", metavar="PATH", help="Held-out text: a file, or a folder of *.txt.  [default: ours]"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Ask only N questions of each subject.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Chooses the questions that --limit keeps.")] = 0,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="MODEL", help="What the others are compared with.  [default: bf16 on vLLM]"
        ),
    ] = None,
    window: Annotated[int, typer.Option("--window", min=8, help="Tokens of a perplexity window.")] = 512,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Requests at once; 1 leaves no batch to round differently.")
    ] = 8,
    deadline: Annotated[
        float, typer.Option("--deadline", min=0.001, metavar="SECONDS", help="Give up on a request after this long.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", dir_okay=False, help="Write the JSON to this file as well.")
    ] = None,
    url: UrlOption = None,
    port_base: PortBaseOption = None,
    protocol: ProtocolOption = None,
) -> None:
    """Measure how good the served rungs' answers are, and judge them by the profile's `quality`.

    Exit code 0: inside every threshold that could be judged. 1: outside one. 2: something could not be measured.
    """
    endpoint = endpoint_from(url, port_base, protocol)
    settings = Settings(
        suites=parse_suites(suites),
        text=None if text is None else str(text),
        mmlu=None if mmlu is None else str(mmlu),
        limit=limit,
        seed=seed,
        window=window,
        concurrency=concurrency,
        deadline_s=deadline,
    )
    layout = Layout.of_this_checkout()
    console = Console(stderr=True, highlight=False)
    own = own_server(endpoint, layout)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        chosen = load_profile(profile or (own.profile if own and own.profile else DEFAULT_PROFILE))
        found, interrupted = _measure(endpoint, chosen, artifacts or [], reference, settings, layout, console)
    except (ProfileError, EvaluationError, ClientError) as error:
        _fail(console, str(error))
    _write(found, as_json=as_json, out=out)
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if not found.complete:
        _fail(console, "not everything could be measured: the reasons are in the report")
    if own is not None and own.profile == chosen.name:
        for rung, outcome in record_verdicts(found, chosen, layout.home).items():
            console.print(Text(f"  {rung}: verdict {outcome}"), soft_wrap=True)
    if any(result.verdict and result.verdict.failures for result in found.rungs):
        raise typer.Exit(_OUTSIDE)


def parse_suites(text: str) -> tuple[Suite, ...]:
    """Suites out of "perplexity,format", in the order in which they are measured. Raises typer.BadParameter."""
    words = {word.strip() for word in text.split(",")}
    unknown = sorted(words - set(Suite))
    if unknown:
        raise typer.BadParameter(f'"{unknown[0]}" is no suite: known are {", ".join(Suite)}', param_hint="--suites")
    return tuple(suite for suite in Suite if suite in words)


def own_server(endpoint: Endpoint, layout: Layout) -> Instance | None:
    """What this checkout has running at the endpoint; None for somebody else's server, whose weights are not ours."""
    if endpoint.host not in _LOOPBACK:
        return None
    for base in known_port_bases(layout):
        address, files = ServerAddress.from_port_base(base), InstanceFiles.at(base, layout)
        if endpoint.port in (address.http_port, address.grpc_port) and files.supervised():
            return Instance.read(files)
    return None


def _measure(
    endpoint: Endpoint,
    profile: Profile,
    words: list[str],
    reference: str | None,
    settings: Settings,
    layout: Layout,
    console: Console,
) -> tuple[Evaluation, bool]:
    """What was found, and whether the user interrupted it: what had been measured by then is in it all the same."""
    questions = Questions.read(settings)
    with ServerInfo.at(endpoint) as server:
        targets = Targets(profile, server.ready_targets(), layout.home)
        machine = Machine.here(server.metadata().version)
    compared = targets.named(reference) if reference is not None else targets.default_reference()
    named = [targets.named(word) for word in words] or targets.all_rungs()
    rungs = list(dict.fromkeys([compared, *named]))
    started_at, started = datetime.now(UTC), time.monotonic()
    with _progress(console) as progress:
        results, failure = _run(endpoint, rungs, questions, settings, progress)
    if failure and not isinstance(failure, KeyboardInterrupt):
        console.print(Text(f"error: {failure}", style="red"), soft_wrap=True)
    judged = [
        result.model_copy(update={"verdict": judge(result, results[0], profile.quality, settings)})
        for result in results
    ]
    return Evaluation(
        started_at=started_at,
        seconds=time.monotonic() - started,
        complete=not failure and not any(result.broken for result in results),
        machine=machine,
        git=git_state(layout.home),
        profile=profile.name,
        server=endpoint.url,
        settings=settings,
        reference=str(compared),
        rungs=tuple(judged),
    ), isinstance(failure, KeyboardInterrupt)


def _run(
    endpoint: Endpoint, rungs: list[Served], questions: Questions, settings: Settings, progress: _Shown
) -> tuple[list[RungResult], BaseException | None]:
    """The results so far, and what ended the run early."""
    evaluators: list[Evaluator] = []

    async def run() -> None:
        client = AsyncClient(endpoint)
        try:
            evaluators.append(Evaluator(client, rungs, questions, settings, progress))
            await evaluators[0].run()
        finally:
            await client.close()

    try:
        asyncio.run(run())
    except (KeyboardInterrupt, ClientError) as failure:
        return (evaluators[0].results if evaluators else []), failure
    return evaluators[0].results, None


class _Shown:
    """The suite that is being measured: a bar on a terminal, one line a suite elsewhere."""

    def __init__(self, bars: Bars, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._task = bars.add_task("preparing", total=None)

    def begin(self, rung: str, suite: str, total: int) -> None:
        self._bars.reset(self._task, description=f"{rung} {suite}", total=total)
        if not self._console.is_terminal:
            self._console.print(f"  {rung} {suite}: {total} requests", markup=False)

    def step(self) -> None:
        self._bars.advance(self._task)


@contextmanager
def _progress(console: Console) -> Iterator[_Shown]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Shown(bars, console)


def _write(found: Evaluation, *, as_json: bool, out: Path | None) -> None:
    json_text = found.model_dump_json(indent=2) + "\n"
    if out is not None:
        draft = out.with_name(f".{out.name}.{os.getpid()}")
        try:
            draft.write_text(json_text, encoding="utf-8")
            draft.replace(out)
        finally:
            draft.unlink(missing_ok=True)
    if as_json:
        typer.echo(json_text, nl=False)
    else:
        Console(highlight=False).print(*evaluation_view(found), sep="\n")


def _fail(console: Console, message: str) -> NoReturn:
    console.print(Text(f"error: {message}", style="red"), soft_wrap=True)
    raise typer.Exit(_COULD_NOT)
