"""`./ladder loadtest`: Locust with the ladder's users, workloads and statistics, against a running server."""

from __future__ import annotations

import signal
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from loadtest.errors import LoadTestError
from loadtest.exit_codes import COULD_NOT_RUN
from loadtest.launching import LocustPlan, free_web_port, run_locust
from loadtest.options import Protocol, Shape, SlaLimits
from loadtest.statistics.sla import from_profile
from loadtest.workloads.catalogue import workload_names
from loadtest.workloads.model_tokenizer import FILE_NAME as TOKENIZER_FILE
from tools.bootstrap.layout import Layout
from tools.cli.connection import PortBaseOption, UrlOption, endpoint_from, instance_at
from tools.cli.patience import said_when_slow
from tools.cli.signals import end_in_order_on
from tools.client import address
from tools.client.address import Endpoint
from tools.client.control import TIMEOUT_S
from tools.client.errors import ClientError
from tools.client.rungs import rungs_among
from tools.client.server_info import ServerInfo
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile

_INTERRUPTED: Final = 130
_PROFILE_SLA: Final = "profile"
_SLOW: Final = "llm_baseline"


def register(app: typer.Typer) -> None:
    """Add the command `loadtest`."""
    app.command("loadtest")(loadtest)


def loadtest(
    targets: Annotated[
        str | None, typer.Option(metavar="A,B", help="Models to test side by side, MODEL or MODEL:VERSION.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help=f"What is asked: {', '.join(workload_names())}, or a YAML or JSONL file."
        ),
    ] = None,
    users: Annotated[int | None, typer.Option("--users", "-u", min=1, help="How many ask at the same time.")] = None,
    shape: Annotated[
        Shape | None,
        typer.Option(
            help="users: so many at a time; the others are arrivals a second, which a slow server does not slow; "
            "search: the highest rate inside the SLA.  [default: users, or rate with --rate]",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[str | None, typer.Option(metavar="R", help="Arrivals a second, in all.")] = None,
    peak_rate: Annotated[str | None, typer.Option(metavar="R", help="The highest, of ramp, spike and search.")] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", "-t", metavar="TIME", help="After the warm-up: 90s, 20m, 1h30m.")
    ] = None,
    requests: Annotated[str | None, typer.Option(metavar="N", help="End after so many requests.")] = None,
    warmup: Annotated[str | None, typer.Option(metavar="TIME", help="What is due before that is not counted.")] = None,
    warmup_requests: Annotated[str | None, typer.Option(metavar="N", help="So many requests are not counted.")] = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(help="How the models are asked.  [default: generate_stream]", show_default=False),
    ] = None,
    input_tokens: Annotated[str | None, typer.Option(metavar="N", help="Instead of the workload's own.")] = None,
    output_tokens: Annotated[str | None, typer.Option(metavar="N", help="Instead of the workload's own.")] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="tokenizer.json of the model, or its folder: prompts then have exactly the lengths that are drawn.  "
            "[default: that of the server `up` started]",
            show_default=False,
        ),
    ] = None,
    sampling: Annotated[str | None, typer.Option(metavar="JSON", help="Over the workload's parameters.")] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="A request without its whole answer by then is a failure.")
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="N", help="Of the workload and the arrivals.")] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="PEM file of the authority behind an https or grpcs server's certificate.",
        ),
    ] = None,
    sla: Annotated[
        str | None,
        typer.Option(
            metavar="LIMITS", help='"profile" for the profile\'s, or ttft_ms=500,tpot_ms=50,p99_e2e_s=4,min_qps=20.'
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option(help="Whose SLA: a shipped profile's name, or a YAML file.")
    ] = DEFAULT_PROFILE,
    workers: Annotated[int, typer.Option(min=0, help="Processes that generate the load; 0 is one process in all.")] = 0,
    ui: Annotated[
        bool | None,
        typer.Option(
            "--ui/--no-ui",
            help="Locust's web UI, where runs are started from a form.  "
            "[default: it, unless --duration, --requests or shape search say when a run is over]",
            show_default=False,
        ),
    ] = None,
    web_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Of the web UI.  [default: from 8089]")] = None,
    stop_timeout: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="What running requests get at the end; then they are cut.")
    ] = 30,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Results.  [default: .ladder/loadtest/TIME]")
    ] = None,
    url: UrlOption = None,
    port_base: PortBaseOption = None,
) -> None:
    """Load-test a running server with Locust, in its web UI or headless.

    Exits with 0 when the SLA was kept, with 1 when it was missed (without an SLA: when a request failed), and with 2
    when the run could not be made, or not to its end.
    """
    shape = shape or (Shape.RATE if rate is not None else None)
    headless = not ui if ui is not None else bool(duration or requests or shape is Shape.SEARCH)
    spoken = protocol or Protocol.GENERATE_STREAM
    endpoint = endpoint_from(
        url, port_base, address.Protocol.GRPC if spoken is Protocol.GRPC else address.Protocol.HTTP
    )
    endpoint = replace(endpoint, ca_file=None if ca_file is None else str(ca_file))
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    try:
        if targets is None and spoken is not Protocol.OPENAI:
            with said_when_slow(
                console, f'waiting for "{endpoint.url}" to say what it serves, {TIMEOUT_S:g} s at most'
            ):
                targets = _targets_to_offer(endpoint, headless=headless)
        folder = out or _results_folder(headless=headless)
        given = {
            "--host": endpoint.url,
            "--targets": targets,
            "--protocol": protocol,
            "--workload": workload,
            "--input-tokens": input_tokens,
            "--output-tokens": output_tokens,
            "--tokenizer": tokenizer or _own_tokenizer(endpoint),
            "--sampling": sampling,
            "--shape": shape,
            "--users": users,
            "--rate": rate,
            "--peak-rate": peak_rate,
            "--run-time": duration,
            "--requests": requests,
            "--warmup": warmup,
            "--warmup-requests": warmup_requests,
            "--deadline": deadline,
            "--seed": seed,
            "--ca-file": ca_file,
            "--sla": _sla_text(sla, profile),
            "--out": folder,
        }
        arguments = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        if headless:
            # Its own tables would repeat ours: they go to a file, to whose name Locust adds ".json".
            arguments += ["--headless", "--only-summary", "--json-file", str(folder / "locust")]
        port = None if headless else free_web_port(web_port)
        plan = LocustPlan((*arguments, "--loglevel", "WARNING"), workers, port, float(stop_timeout))
        code = run_locust(plan, Layout.of_this_checkout().logs, lambda: _announce(console, port))
    except (LoadTestError, ClientError, ProfileError) as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(COULD_NOT_RUN) from None
    except ssl.SSLError:
        console.print(Text(f'error: --ca-file "{ca_file}" holds no certificate', style="red"), soft_wrap=True)
        raise typer.Exit(COULD_NOT_RUN) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if code < 0:
        console.print(
            Text(f"error: Locust was killed by {signal.Signals(-code).name}: there are no results", style="red")
        )
    raise typer.Exit(code if code >= 0 else COULD_NOT_RUN)


def _targets_to_offer(endpoint: Endpoint, *, headless: bool) -> str:
    """The ready rungs that vLLM serves, for the form to start with; a run without a form needs to be told."""
    with ServerInfo.at(endpoint) as server:
        ready = server.ready_targets()
    if headless:
        raise LoadTestError(f"--targets is missing: say what to test; ready are {', '.join(map(str, ready)) or 'none'}")
    models = [rung.target.model for rung in rungs_among(ready) if rung.target.model != _SLOW]
    return ",".join(dict.fromkeys(models))


def _own_tokenizer(endpoint: Endpoint) -> Path | None:
    """That of the model which this checkout serves there; None for other servers. Raises ProfileError."""
    own = instance_at(endpoint)
    if own is None or not own.profile:
        return None
    file = Layout.of_this_checkout().home / load_profile(own.profile).artifacts.bf16.path / TOKENIZER_FILE
    return file if file.is_file() else None


def _results_folder(*, headless: bool) -> Path:
    """In the web UI each run makes a folder of its own in it."""
    folder = Layout.of_this_checkout().private / "loadtest"
    return folder / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ") if headless else folder


def _sla_text(sla: str | None, profile: str) -> str | None:
    """The form that Locust's command line takes. Raises ProfileError, LoadTestError."""
    if sla is not None and not sla.strip():
        # A variable of CI that is not set must not keep every promise.
        raise LoadTestError("--sla is empty: give limits, such as ttft_ms=500,min_qps=20, or leave it out")
    if sla != _PROFILE_SLA:
        return sla
    limits: SlaLimits = from_profile(load_profile(profile).sla)
    return ",".join(f"{name}={value:g}" for name, value in limits.model_dump(exclude_none=True).items())


def _announce(console: Console, port: int | None) -> None:
    console.print(f"web UI: http://127.0.0.1:{port} (Ctrl-C ends it)")
