"""`./ladder fleet`: several tritonservers behind one address, with weights between them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from tools.artifacts.errors import ArtifactError
from tools.bootstrap.environments import FLEET
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.interruption import end_in_order, interruption_held
from tools.bootstrap.layout import Layout
from tools.bootstrap.preparation import prepare as prepare_environments
from tools.cli.fleet_render import render_command
from tools.cli.fleet_view import fleet_view
from tools.cli.served import (
    AcceptFailedArtifactsOption,
    AcceptLintErrorsOption,
    ModelsOption,
    RepositoryOption,
    repositories_to_serve,
    wanted_models,
)
from tools.fleet.control import clear, down, status_of
from tools.fleet.errors import FleetError
from tools.fleet.files import FleetFiles, FleetState, known_fleets
from tools.fleet.keeper import Keeper
from tools.fleet.plan import MOST_IN_FLIGHT, MOST_SERVERS, FleetPlan, Limits, Track
from tools.fleet.site import FleetSite
from tools.fleet.weights import shares
from tools.lint.findings import LintInputError
from tools.release.controller import wait_until_in_force
from tools.release.errors import ReleaseError, ReleaseFileError
from tools.release.steering import parse_weights, set_weights
from tools.release.weights import text_of
from tools.rendering.files import RenderError
from tools.rendering.plan import ROUTER
from tools.serving.errors import ServingError
from tools.serving.instance import InstanceFiles
from tools.serving.log_follower import follow
from tools.serving.server import last_lines, require_served_paths
from tools.spec.loading import DEFAULT_PROFILE, ProfileError

DEFAULT_PORT_BASE: Final = 9000
_FAILED: Final = 1
_INTERRUPTED: Final = 130
_EXPECTED: Final = (
    ProfileError,
    ArtifactError,
    BootstrapError,
    RenderError,
    LintInputError,
    ServingError,
    FleetError,
    ReleaseError,
    ReleaseFileError,
)

PortBaseOption = Annotated[
    int,
    typer.Option(
        "--port-base",
        metavar="PORT",
        min=1,
        max=65000,
        help="HTTP on this port, gRPC on the next, the proxy's metrics on the third; servers 10, 20, ... above.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command `fleet` with its subcommands."""
    fleet = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

    @fleet.callback()
    def _fleet() -> None:
        """Serve with several tritonservers behind one address, and divide requests between them."""

    fleet.command("up")(up_command)
    fleet.command("status")(status_command)
    fleet.command("set")(set_command)
    fleet.command("logs")(logs_command)
    fleet.command("down")(down_command)
    fleet.command("render")(render_command)
    app.add_typer(fleet, name="fleet")


def up_command(
    replicas: Annotated[int, typer.Option(min=1, max=MOST_SERVERS, help="How many stable servers.")] = 2,
    canary: Annotated[int, typer.Option(min=0, max=MOST_SERVERS, help="How many canary servers.")] = 0,
    profile: Annotated[str, typer.Option(help="Profile of the servers, by name or path.")] = DEFAULT_PROFILE,
    canary_profile: Annotated[
        str | None, typer.Option(help="Profile of the canary servers.  [default: the same]", show_default=False)
    ] = None,
    repository: RepositoryOption = None,
    canary_repository: Annotated[
        list[Path] | None, typer.Option(help="The same for the canary servers; repeatable.", show_default=False)
    ] = None,
    models: ModelsOption = "",
    max_in_flight: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_IN_FLIGHT, help="Requests in flight per server, over HTTP and gRPC each; more are refused."
        ),
    ] = Limits().in_flight_per_server,
    port_base: PortBaseOption = DEFAULT_PORT_BASE,
    detach: Annotated[bool, typer.Option("--detach", help="Leave the fleet running and return.")] = False,
    accept_failed_artifacts: AcceptFailedArtifactsOption = False,
    accept_lint_errors: AcceptLintErrorsOption = False,
) -> None:
    """Start the servers, and Envoy in front of them; stay until Ctrl-C.

    A canary gets no requests before `fleet set` or `release start canary --fleet` gives it a share. What dies is
    started again. Exits with 1 when something cannot be started.
    """
    console = Console(stderr=True, highlight=False)
    layout = Layout.of_this_checkout()

    def track(servers: int, name: str, folders: list[Path] | None) -> Track:
        served = repositories_to_serve(
            name,
            folders,
            wanted_models(models),
            console,
            accept_failed_artifacts=accept_failed_artifacts,
            accept_lint_errors=accept_lint_errors,
        )
        repositories = tuple(map(str, served.repositories))
        return Track(servers=servers, profile=served.profile, repositories=repositories, models=served.plan.names)

    try:
        other = canary_profile is not None or bool(canary_repository)
        if other and not canary:
            raise FleetError("there are no canary servers to serve something else: say how many, with --canary 1")
        _require_none(FleetFiles.at(port_base, layout), port_base)
        if detach:
            _detach(port_base, layout, console)
            return
        require_served_paths([layout.home])
        prepare_environments([FLEET], layout)
        stable = track(replicas, profile, repository)
        challenger = track(canary, canary_profile or profile, canary_repository) if other else stable
        fleet = FleetPlan(
            port_base=port_base,
            stable=stable,
            canary=challenger.model_copy(update={"servers": canary}) if canary else None,
            probe=ROUTER if ROUTER in stable.models else stable.models[-1],
            limits=Limits(in_flight_per_server=max_in_flight),
        )
        _keep(fleet, layout, console)
    except ValidationError as error:
        _fail("; ".join(detail["msg"] for detail in error.errors()))
    except _EXPECTED as error:
        _fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


def status_command(
    port_base: Annotated[
        int | None, typer.Option("--port-base", metavar="PORT", help="Only this fleet.", show_default="all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of fleets.")] = False,
) -> None:
    """Show what each server does, and the weights. Exits with 0 when there is a fleet and all of it can answer."""
    layout = Layout.of_this_checkout()
    console = Console(highlight=False)
    try:
        bases = known_fleets(layout) if port_base is None else [port_base]
        found = [status for base in bases if (status := status_of(base, layout)) is not None]
    except FleetError as error:
        _fail(str(error))
    if as_json:
        typer.echo(json.dumps([status.model_dump(mode="json") for status in found], indent=2, ensure_ascii=False))
    elif found:
        for status in found:
            console.print(fleet_view(status))
    else:
        console.print("No fleet runs. Start one: ./ladder fleet up --replicas 2 --canary 1")
    if not found or not all(status.running for status in found):
        raise typer.Exit(_FAILED)


def set_command(
    weights: Annotated[
        list[str], typer.Argument(metavar="TRACK=PERCENT...", help="Such as canary=25.", show_default=False)
    ],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Goes into the history.")] = "",
    port_base: Annotated[int | None, typer.Option("--port-base", metavar="PORT", help="Which fleet.")] = None,
) -> None:
    """Set the tracks' shares by hand; the other track takes what is left."""
    console = Console(highlight=False)
    try:
        site = FleetSite.at(port_base, Layout.of_this_checkout())
        event = set_weights(site, shares(parse_weights(weights, site)), None, why or "by hand")
        console.print(Text(f"{text_of(event.before)} -> {text_of(event.after)}"), soft_wrap=True)
        waited = wait_until_in_force(site.traffic(event.route), event.after)
    except _EXPECTED as error:
        _fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if waited is None:
        _fail("the proxy has not taken them over: ./ladder fleet logs envoy says why")
    console.print(f"In force at the proxy after {waited:.1f} s.")


def logs_command(
    process: Annotated[
        str, typer.Argument(metavar="PROCESS", help='"keeper", "envoy", "access", or a server such as "stable-0".')
    ] = "keeper",
    follow_log: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the fleet ends or Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    port_base: PortBaseOption = DEFAULT_PORT_BASE,
) -> None:
    """Show a log: of the fleet's keeper in the background, of Envoy, of requests, or of a server."""
    try:
        file = _log(process, port_base, Layout.of_this_checkout())
    except FleetError as error:
        _fail(str(error))
    if not follow_log:
        for line in last_lines(file, lines):
            typer.echo(line)
        return
    try:
        for line in follow(file, lines, FleetFiles.at(port_base, Layout.of_this_checkout()).kept):
            typer.echo(line)
    except KeyboardInterrupt:
        return


def down_command(port_base: PortBaseOption = DEFAULT_PORT_BASE) -> None:
    """Stop a fleet, however it was started, and clear what a killed one left. Stopping nothing is no error."""
    console = Console(stderr=True, highlight=False)
    try:
        with console.status("stopping") as shown:
            stopped = down(port_base, Layout.of_this_checkout(), lambda line: shown.update(Text(line)))
    except _EXPECTED as error:
        _fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if stopped:
        console.print(f"Stopped: nothing of the fleet at port base {port_base} is left.")
    else:
        console.print(f"No fleet runs at port base {port_base}.")


def _keep(fleet: FleetPlan, layout: Layout, console: Console) -> None:
    files = FleetFiles.at(fleet.port_base, layout)
    lock = files.keep()
    if lock is None:
        raise FleetError(f"another ./ladder fleet up was quicker: ./ladder fleet status --port-base {fleet.port_base}")
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: interrupted.set())
    try:
        # What a killed fleet of this port base may have left, before new servers take its place.
        clear(fleet.port_base, layout, lambda _: None)
        Keeper(fleet, layout, lambda line: console.print(Text(line), soft_wrap=True)).run(interrupted)
    finally:
        os.close(lock)
    raise typer.Exit(_INTERRUPTED)


def _detach(port_base: int, layout: Layout, console: Console) -> None:
    """Run the same command without --detach in the background, and wait until it serves."""
    files = FleetFiles.at(port_base, layout)
    files.folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as unless_it_serves:
        with files.keeper_log.open("wb") as log, interruption_held():
            keeper = subprocess.Popen(
                [word for word in sys.orig_argv if word != "--detach"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            unless_it_serves.callback(end_in_order, keeper)
        for line in follow(files.keeper_log, 0, lambda: keeper.poll() is None and not _serves(files, keeper.pid)):
            console.print(Text(line), soft_wrap=True)
        if keeper.poll() is not None:
            raise typer.Exit(_FAILED)
        unless_it_serves.pop_all()
    where = "" if port_base == DEFAULT_PORT_BASE else f" --port-base {port_base}"
    console.print(f"It runs in the background. Stop it: ./ladder fleet down{where}", soft_wrap=True)


def _serves(files: FleetFiles, keeper: int) -> bool:
    state = FleetState.read(files)
    return state is not None and state.keeper == keeper and state.ready


def _require_none(files: FleetFiles, port_base: int) -> None:
    if files.kept():
        raise FleetError(f"a fleet runs at port base {port_base}: ./ladder fleet down --port-base {port_base} stops it")


def _log(process: str, port_base: int, layout: Layout) -> Path:
    files = FleetFiles.at(port_base, layout)
    state = FleetState.read(files)
    known = {
        "keeper": files.keeper_log,
        "envoy": InstanceFiles(files.proxy).server_log,
        "access": files.access_log,
        **({m.name: InstanceFiles.at(m.port_base, layout).server_log for m in state.plan.members} if state else {}),
    }
    if process not in known:
        raise FleetError(f'no "{process}" in the fleet at port base {port_base}: there is {", ".join(known)}')
    if not known[process].exists():
        raise FleetError(f'nothing was written yet: no file "{known[process]}"')
    return known[process]


def _fail(text: str) -> NoReturn:
    Console(stderr=True, highlight=False).print(Text(f"error: {text}", style="red"), soft_wrap=True)
    raise typer.Exit(_FAILED)
