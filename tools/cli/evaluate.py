"""`./ladder eval`: reads the command line, shows progress, writes the report, sets the exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.cli.connection import PortBaseOption, ProtocolOption, UrlOption, endpoint_from, instance_at
from tools.cli.report_file import write_report_file
from tools.cli.signals import end_in_order_on
from tools.client.errors import ClientError
from tools.evaluation.errors import EvaluationError
from tools.evaluation.recording import record_verdicts
from tools.evaluation.results import Evaluation, Settings, Suite
from tools.evaluation.session import Order
from tools.evaluation.session import evaluate as run_evaluation
from tools.evaluation.table import evaluation_view
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile
from tools.spec.profile import Profile

_OUTSIDE: Final = 1
_COULD_NOT: Final = 2
_INTERRUPTED: Final = 130


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
    if out is not None and not out.parent.is_dir():
        raise typer.BadParameter(f'"{out.parent}" is no folder: make it first', param_hint="--out")
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
    home = Layout.of_this_checkout().home
    console = Console(stderr=True, highlight=False)
    own = instance_at(endpoint)
    profile = profile or (own.profile if own and own.profile else DEFAULT_PROFILE)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    try:
        chosen = load_profile(profile)
        with _progress(console) as progress:
            outcome = run_evaluation(Order(endpoint, chosen, artifacts or [], reference, settings), home, progress)
    except (ProfileError, EvaluationError, ClientError) as error:
        _fail(console, str(error))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    found = outcome.found
    try:
        _write(found, as_json=as_json, out=out)
        if outcome.ended_by is None:
            _record(found, chosen, home, console, own=own is not None and own.profile == profile)
    except OSError as error:
        _fail(console, f'"{error.filename}" cannot be written: {error.strerror}')
    if isinstance(outcome.ended_by, KeyboardInterrupt):
        raise typer.Exit(_INTERRUPTED)
    if outcome.ended_by is not None:
        _fail(console, str(outcome.ended_by))
    if not found.complete:
        _fail(console, "not everything could be measured: the reasons are in the report")
    if any(result.verdict and result.verdict.failures for result in found.rungs):
        raise typer.Exit(_OUTSIDE)


def parse_suites(text: str) -> tuple[Suite, ...]:
    """Suites out of "perplexity,format", in the order in which they are measured. Raises typer.BadParameter."""
    words = {word.strip() for word in text.split(",")}
    unknown = sorted(words - set(Suite))
    if unknown:
        raise typer.BadParameter(f'"{unknown[0]}" is no suite: known are {", ".join(Suite)}', param_hint="--suites")
    return tuple(suite for suite in Suite if suite in words)


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


def _record(found: Evaluation, profile: Profile, home: Path, console: Console, *, own: bool) -> None:
    """`own`: this checkout started the server, with this profile, so that the weights are those it names."""
    if own:
        outcome = record_verdicts(found, profile, home)
    else:
        reason = f'not recorded: this checkout has not started the server with the profile "{profile.name}"'
        outcome = {result.rung: reason for result in found.rungs if result.verdict is not None}
    for rung, what in outcome.items():
        console.print(Text(f"  {rung}: verdict {what}"), soft_wrap=True)


def _write(found: Evaluation, *, as_json: bool, out: Path | None) -> None:
    json_text = found.model_dump_json(indent=2) + "\n"
    if out is not None:
        write_report_file(out, json_text)
    if as_json:
        typer.echo(json_text, nl=False)
    else:
        Console(highlight=False).print(*evaluation_view(found), sep="\n")


def _fail(console: Console, message: str) -> NoReturn:
    console.print(Text(f"error: {message}", style="red"), soft_wrap=True)
    raise typer.Exit(_COULD_NOT)
