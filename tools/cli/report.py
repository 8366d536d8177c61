"""`./ladder report`: measures the ladder and writes the report; `./ladder report compare`: two of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from loadtest.options import MOST_SECONDS, MOST_TOKENS, MOST_USERS, Protocol
from tools.artifacts.errors import ArtifactError
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.layout import Layout
from tools.bootstrap.ports import DEFAULT_BASE, HIGHEST_BASE, LOWEST_BASE
from tools.cli.bench import parse_streams
from tools.cli.connection import running_port_base
from tools.cli.patience import said_when_slow
from tools.cli.signals import end_in_order_on
from tools.client.control import TIMEOUT_S
from tools.lint.findings import LintInputError
from tools.rendering.files import RenderError
from tools.reporting.cells import CellRecord, PlannedCell
from tools.reporting.compare import compare
from tools.reporting.compare_view import comparison_markdown
from tools.reporting.errors import ReportError
from tools.reporting.folder import read_report
from tools.reporting.locust_cell import LocustRun
from tools.reporting.model import Report
from tools.reporting.rung_quality import read_evaluation
from tools.reporting.rungs import RungFacts
from tools.reporting.session import Order, Serving, isolated, make_report, running
from tools.reporting.settings import Settings
from tools.reporting.walk import Serve
from tools.serving.errors import ServingError
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile

_REGRESSED: Final = 1
_COULD_NOT: Final = 2
_INTERRUPTED: Final = 130


def register(app: typer.Typer) -> None:
    """Add the command `report` with its subcommand."""
    report = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
    report.callback()(report_command)
    report.command("compare")(compare_command)
    app.add_typer(report, name="report")


def report_command(
    context: typer.Context,
    profile: Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")] = DEFAULT_PROFILE,
    rungs: Annotated[
        str, typer.Option(metavar="A,B", help="Only these, such as v0,v2,v4.  [default: all of the profile]")
    ] = "",
    concurrency: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Concurrent streams.  [default: 1,8,32 on CPU; 1 to 256 on a GPU]"),
    ] = None,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, max=MOST_TOKENS, help="Tokens of a prompt.  [default: 50]")
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(min=2, max=MOST_TOKENS, help="Tokens of an answer.  [default: 16 on CPU, 256 on a GPU]"),
    ] = None,
    requests_per_stream: Annotated[
        int | None, typer.Option(min=1, help="Requests of a measurement.  [default: 1 on CPU, 2 on a GPU]")
    ] = None,
    min_requests: Annotated[
        int | None, typer.Option(min=1, help="Where that would be fewer in all.  [default: 8 on CPU, 16 on a GPU]")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="How often all is measured.  [default: 3]")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the prompts.  [default: 0]")] = None,
    protocol: Annotated[
        Protocol | None, typer.Option(help="How the rungs are asked: generate_stream or grpc.", show_default=False)
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, max=MOST_SECONDS, metavar="SECONDS", help="Of one request.  [default: 120]")
    ] = None,
    cell_seconds: Annotated[
        int | None,
        typer.Option(min=1, metavar="SECONDS", help="Of one measurement; tokens of requests it cuts off count."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Processes that generate the load; 0 is one in all.  [default: 0 on CPU; by streams and cores on a "
            "GPU]",
        ),
    ] = None,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Start a server for each rung instead of using the running one.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Begin no measurement after this time; 0: write what is there."),
    ] = None,
    port_base: Annotated[
        int | None,
        typer.Option(
            min=LOWEST_BASE,
            max=HIGHEST_BASE,
            help="Of the running server, or for the isolated ones."
            f"  [default: that of the server `up` started, {DEFAULT_BASE} if there is none; free ones]",
        ),
    ] = None,
    quality: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="What ./ladder eval --out wrote.  [default: the verdicts kept beside the weights]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the report.  [default: .ladder/reports/PROFILE]")
    ] = None,
) -> None:
    """Measure every rung of the ladder with the same load, and write what each step brought.

    Writes report.html, report.md, report.json and charts. An interrupted report goes on where it was when it is asked
    for again. Exit code 0: every cell was measured. 1: some could not be. 2: there is no report.
    """
    if context.invoked_subcommand is not None:
        return
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    # Load tests are forked from this process, which has asked servers over gRPC: its handlers would run in the forks,
    # find threads gone, and now and then never return.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    given = {
        "levels": None if concurrency is None else _levels(concurrency),
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "requests_per_stream": requests_per_stream,
        "min_requests": min_requests,
        "repeats": repeats,
        "seed": seed,
        "protocol": protocol,
        "deadline_s": deadline,
        "cell_s": cell_seconds,
        "workers": workers,
        "isolated": isolate,
    }
    try:
        chosen = load_profile(profile)
        settings = settings_from(Settings.of_profile(chosen), given)
        folder = out if out is not None else Layout.of_this_checkout().private / "reports" / chosen.name
        evaluation = read_evaluation(quality) if quality is not None else None
        order = Order(profile, chosen, settings, parse_labels(rungs), folder, evaluation, budget)
        found = _make(order, port_base, console)
    except (
        ProfileError,
        ReportError,
        ServingError,
        ArtifactError,
        BootstrapError,
        RenderError,
        LintInputError,
    ) as error:
        _fail(console, str(error))
    except OSError as error:
        _fail(
            console,
            f'"{error.filename}" cannot be written or read: {(error.strerror or str(error)).lower()}: free some space, '
            "mend its rights, or name another folder with --out",
        )
    if found.unmeasured:
        console.print(f"{len(found.unmeasured)} of {len(found.cells)} cells have no figure; the report says why.")
        raise typer.Exit(1)


def compare_command(
    before: Annotated[Path, typer.Argument(metavar="A", help="Folder of the earlier report, or its report.json.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Folder of the later report, or its report.json.")],
    tolerance: Annotated[float, typer.Option(min=0, metavar="PERCENT", help="A change up to this is none.")] = 5.0,
    across_machines: Annotated[
        bool, typer.Option("--across-machines", help="Compare also what two machines measured.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Compare two reports, figure by figure, with 95 % confidence intervals.

    Exit code 0: nothing regressed beyond the tolerance. 1: something did. 2: they cannot be compared.
    """
    console = Console(stderr=True, highlight=False)
    try:
        comparison = compare(
            read_report(before),
            read_report(after),
            tolerance=tolerance,
            seed=seed,
            across_machines=across_machines,
        )
    except ReportError as error:
        _fail(console, str(error))
    if as_json:
        typer.echo(comparison.model_dump_json(indent=2))
    else:
        typer.echo(comparison_markdown(comparison), nl=False)
    if comparison.regressed:
        raise typer.Exit(_REGRESSED)


def settings_from(defaults: Settings, given: Mapping[str, object]) -> Settings:
    """The defaults with what was given in their place. Raises ReportError."""
    changes = {name: value for name, value in given.items() if value is not None}
    try:
        settings = Settings.model_validate({**dict(defaults), **changes})
    except ValidationError as error:
        detail = error.errors()[0]
        raise ReportError(f"--{'-'.join(map(str, detail['loc'])).replace('_', '-')}: {detail['msg']}") from None
    if settings.protocol not in (Protocol.GENERATE_STREAM, Protocol.GRPC):
        raise ReportError(
            f"--protocol {settings.protocol}: the report needs every rung's TTFT, which generate_stream and grpc give"
        )
    return settings


def parse_labels(text: str) -> tuple[str, ...]:
    """Labels out of "v0,v2"."""
    return tuple(dict.fromkeys(word for word in map(str.strip, text.split(",")) if word))


def _make(order: Order, port_base: int | None, console: Console) -> Report:
    layout = Layout.of_this_checkout()
    with _shown(console) as shown:
        if order.settings.isolated:
            serving = isolated(order, layout, port_base, shown.say)
        else:
            base = running_port_base(layout) if port_base is None else port_base
            serving = _running(base, order.settings, console)
        try:
            found = make_report(order, layout, serving, LocustRun(layout.home), shown)
        except KeyboardInterrupt:
            console.print(f'Interrupted. What was measured is in "{order.out}": the same command goes on from there.')
            raise typer.Exit(_INTERRUPTED) from None
    console.print(f'Written: "{order.out / "report.html"}", with report.md, report.json and charts beside it.')
    return found


def _running(port_base: int, settings: Settings, console: Console) -> Serving:
    serving = running(port_base, settings)

    def asked(rungs: Sequence[RungFacts]) -> tuple[Serve, str]:
        text = f"waiting for the server at port base {port_base} to say what it serves, {TIMEOUT_S:g} s at most"
        with said_when_slow(console, text):
            return serving(rungs)

    return asked


class _Shown:
    """A bar with the time left on a terminal; a line a cell elsewhere, and what went wrong in both."""

    def __init__(self, bars: Progress, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._task = bars.add_task("preparing", total=None, left="")

    def begin(self, cell: PlannedCell, number: int, total: int, left_s: float | None) -> None:
        left = "" if left_s is None else f"about {_minutes(left_s)} left"
        self._bars.update(self._task, description=cell.text(), completed=number - 1, total=total, left=left)
        if not self._console.is_terminal:
            self._print(f"{number} of {total}: {cell.text()}{f', {left}' if left else ''}")

    def end(self, cell: PlannedCell, record: CellRecord) -> None:
        self._bars.advance(self._task)
        if record.state != "measured":
            self._print(f"{cell.text()}: {record.state}: {record.reason}")

    def say(self, text: str) -> None:
        self._bars.update(self._task, description=text)
        self._print(text)

    def _print(self, text: str) -> None:
        self._console.print(Text(f"  {text}"), soft_wrap=True)


@contextmanager
def _shown(console: Console) -> Iterator[_Shown]:
    columns = (
        *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Shown(bars, console)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _fail(console: Console, message: str) -> NoReturn:
    console.print(Text(f"error: {message}", style="red"), soft_wrap=True)
    raise typer.Exit(_COULD_NOT)


def _levels(text: str) -> tuple[int, ...]:
    """Raises typer.BadParameter."""
    levels = tuple(sorted(parse_streams(text, "--concurrency")))
    if levels[-1] > MOST_USERS:
        raise typer.BadParameter(f'"{text}" is more than {MOST_USERS} streams', param_hint="--concurrency")
    return levels
