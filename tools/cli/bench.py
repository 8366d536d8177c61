"""`./ladder bench`: figures of the serving path itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from tools.artifacts.errors import ArtifactError
from tools.benchmark.backend import backend_figures, bench_backend
from tools.benchmark.bandwidth import measured_bandwidth
from tools.benchmark.campaign import (
    CampaignOrder,
    LadderCommand,
    read_campaign,
    run_campaign,
    wanted_names,
)
from tools.benchmark.deployment import Report
from tools.benchmark.errors import BenchmarkError
from tools.benchmark.figures import Figures
from tools.benchmark.mock_load import MockSettings
from tools.benchmark.overhead import OverheadSettings, bench_overhead, overhead_figures
from tools.benchmark.router import bench_router, router_figures
from tools.bootstrap.layout import Layout
from tools.cli.report_file import write_report_file
from tools.cli.signals import end_in_order_on
from tools.serving.errors import ServingError
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile

_FAILED = 1
_INTERRUPTED = 130

R = TypeVar("R", bound=BaseModel)

StreamsOption = Annotated[str, typer.Option("--streams", metavar="A,B", help="Concurrent streams.")]
ProfileOption = Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="How often everything is measured.")]
TokensOption = Annotated[int, typer.Option("--tokens", min=1, help="Tokens of a request.")]
StepOption = Annotated[
    float, typer.Option("--step-ms", min=0, help="Time between the engine's steps; 0: as fast as it can.")
]
SecondsOption = Annotated[float, typer.Option("--seconds", min=0.1, help="Length of one measurement.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MarkdownOption = Annotated[bool, typer.Option("--markdown", help="Print the tables as Markdown.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", dir_okay=False, help="Write the JSON to this file as well.")
]
PortBaseOption = Annotated[
    int | None,
    typer.Option("--port-base", metavar="PORT", help="Ports of the server.  [default: the first free ones from 8500]"),
]


def register(app: typer.Typer) -> None:
    """Add the command `bench` with its subcommands."""
    bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

    @bench.callback()
    def _bench() -> None:
        """Measure the backend, what Triton or the release router costs, the memory's bandwidth; or a whole campaign."""

    bench.command("backend")(backend_command)
    bench.command("overhead")(overhead_command)
    bench.command("router")(router_command)
    bench.command("bandwidth")(bandwidth_command)
    bench.command("campaign")(campaign_command)
    app.add_typer(bench, name="bench")


def backend_command(
    streams: StreamsOption = "1,16,64,256",
    tokens: TokensOption = 500,
    step_ms: StepOption = 0.0,
    seconds: SecondsOption = 3.0,
    repeats: RepeatsOption = 3,
    profile: ProfileOption = DEFAULT_PROFILE,
    port_base: PortBaseOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    out: OutOption = None,
) -> None:
    """Drive a real tritonserver and the vLLM backend with an engine that computes nothing.

    Prints throughput, tokens per response (what waits for a stream is merged before each send), and the CPU time that
    stub, server, engine and client spend on a token and on a response.
    """
    settings = MockSettings(
        profile=profile,
        streams=parse_streams(streams),
        tokens=tokens,
        step_s=step_ms / 1e3,
        seconds=seconds,
        repeats=repeats,
    )
    layout = Layout.of_this_checkout()
    report = _measured(lambda say: bench_backend(load_profile(profile), settings, layout, say, port_base))
    _print(report, backend_figures(report), as_json=as_json, markdown=markdown, out=out)


def overhead_command(
    streams: StreamsOption = "1,8,16",
    tokens: Annotated[int, typer.Option("--tokens", min=2, help="Output tokens of a request.")] = 64,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=1, help="Prompt tokens of a request.")] = 50,
    repeats: RepeatsOption = 3,
    profile: ProfileOption = DEFAULT_PROFILE,
    model: Annotated[
        str, typer.Option(help="The profile's variant to measure.  [default: its first of kind vllm]")
    ] = "",
    port_base: PortBaseOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    out: OutOption = None,
) -> None:
    """Measure one engine bare and through Triton, by turns: what does serving it cost?

    Both engines are loaded at the same time: on a GPU, gpu_memory_utilization has to leave room for two.
    """
    settings = OverheadSettings(
        profile=profile,
        model=model,
        streams=parse_streams(streams),
        tokens=tokens,
        prompt_tokens=prompt_tokens,
        repeats=repeats,
    )
    layout = Layout.of_this_checkout()
    report = _measured(lambda say: bench_overhead(load_profile(profile), settings, layout, say, port_base))
    _print(report, overhead_figures(report), as_json=as_json, markdown=markdown, out=out)


def router_command(
    streams: StreamsOption = "32",
    tokens: TokensOption = 200,
    step_ms: StepOption = 7.0,
    seconds: SecondsOption = 3.0,
    repeats: RepeatsOption = 5,
    profile: ProfileOption = DEFAULT_PROFILE,
    port_base: PortBaseOption = None,
    as_json: JsonOption = False,
    markdown: MarkdownOption = False,
    out: OutOption = None,
) -> None:
    """Ask an engine that computes nothing directly and through the release router, by turns.

    Prints what the router adds to the time to the first token of one stream, and what is left of the throughput. The
    default pace, 7 ms, is about that of a 7B model on an H200 with 32 streams.
    """
    settings = MockSettings(
        profile=profile,
        streams=parse_streams(streams),
        tokens=tokens,
        step_s=step_ms / 1e3,
        seconds=seconds,
        repeats=repeats,
    )
    layout = Layout.of_this_checkout()
    report = _measured(lambda say: bench_router(load_profile(profile), settings, layout, say, port_base))
    _print(report, router_figures(report), as_json=as_json, markdown=markdown, out=out)


def bandwidth_command(
    gib: Annotated[float, typer.Option("--gib", min=0.01, help="Size of the buffer that is read.")] = 8.0,
    out: OutOption = None,
) -> None:
    """Measure how fast the GPU (without one: the CPU) reads its memory: the floor of TPOT at one stream."""
    console = Console(stderr=True, highlight=False)
    try:
        text = measured_bandwidth(gib, Layout.of_this_checkout(), os.environ).model_dump_json(indent=2) + "\n"
    except BenchmarkError as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    if out is not None:
        write_report_file(out, text)
    typer.echo(text, nl=False)


def campaign_command(
    file: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="YAML: groups of stages, each a command.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")],
    budget: Annotated[
        float, typer.Option("--budget", min=1, metavar="SECONDS", help="What does not fit is left for the next run.")
    ] = 86400.0,
    only: Annotated[str, typer.Option("--only", metavar="A,B", help="Only these stages.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Also stages that are done or have failed.")] = False,
) -> None:
    """Run a campaign of measurements, each stage with its time budget; asked for again, it goes on.

    Exit code 0: every stage is done. 1: some failed or are left; OUT/stages says why. 130: Ctrl-C.
    """
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    started = time.monotonic()

    def say(text: str) -> None:
        console.print(Text(f"  {time.monotonic() - started:5.0f} s  {text}"), soft_wrap=True)

    try:
        campaign = read_campaign(file)
        order = CampaignOrder(out.absolute(), budget, wanted_names(only.split(",")), again)
        records = run_campaign(campaign, order, LadderCommand(Layout.of_this_checkout()), say)
    except BenchmarkError as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    done = [record.name for record in records if record.state == "done"]
    left = [stage.name for stage in campaign.stages if stage.name not in done]
    console.print(f"{len(done)} of {len(campaign.stages)} stages are done.")
    if left:
        console.print(f"Not done: {', '.join(left)}.")
        raise typer.Exit(_FAILED)


def parse_streams(text: str, option: str = "--streams") -> tuple[int, ...]:
    """Concurrencies out of "1,16,64". Raises typer.BadParameter."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise typer.BadParameter(f'"{text}" is no list of whole numbers above 0, such as 1,16,64', param_hint=option)
    return tuple(dict.fromkeys(map(int, words)))


def _measured(measure: Callable[[Report], R]) -> R:
    """The report; errors and signals end the command, after everything that was started has been ended."""
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    try:
        with console.status("preparing") as status:

            def say(text: str) -> None:
                status.update(Text(text))
                if not console.is_terminal:
                    console.print(f"  {text}", markup=False)

            return measure(say)
    except (ProfileError, ArtifactError, ServingError, BenchmarkError) as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def _print(report: BaseModel, figures: Figures, *, as_json: bool, markdown: bool, out: Path | None) -> None:
    json_text = report.model_dump_json(indent=2) + "\n"
    if out is not None:
        write_report_file(out, json_text)
    if as_json:
        typer.echo(json_text, nl=False)
    elif markdown:
        typer.echo(figures.to_markdown(), nl=False)
    else:
        Console(highlight=False).print(*figures.to_rich(), sep="\n")
