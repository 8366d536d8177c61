"""`./ladder down`, `status` and `logs`: what is running, how to end it, what it says."""

from __future__ import annotations

import json
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.bootstrap.ports import HIGHEST_BASE, LOWEST_BASE
from tools.cli.instance_view import print_instance
from tools.serving.errors import ServingError
from tools.serving.instance import InstanceFiles, known_port_bases
from tools.serving.log_follower import follow
from tools.serving.server import last_lines
from tools.serving.status import status_of
from tools.serving.stopping import stop

_FAILED = 1

PortBaseOption = Annotated[
    int,
    typer.Option(
        "--port-base",
        metavar="PORT",
        min=LOWEST_BASE,
        max=HIGHEST_BASE,
        help="HTTP on this port, gRPC on the next, metrics on the third.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands `down`, `status` and `logs`."""
    app.command("down")(down)
    app.command("status")(status)
    app.command("logs")(logs)


def down(
    port_base: PortBaseOption = 8000,
    everything: Annotated[bool, typer.Option("--all", help="Every instance of this checkout.")] = False,
) -> None:
    """Stop a server, however it was started, and clear what a killed one left.

    Requests in flight are finished first; a second Ctrl-C does not wait for them. Stopping nothing is no error.
    """
    console = Console(stderr=True, highlight=False)
    layout = Layout.of_this_checkout()
    failed = False
    for base in known_port_bases(layout) if everything else [port_base]:
        try:
            with console.status("stopping") as shown:
                stopped = stop(InstanceFiles.at(base, layout), lambda line: shown.update(Text(line)))
        except ServingError as error:
            _say_error(console, str(error))
            failed = True
            continue
        if stopped:
            console.print(f"Stopped: nothing of the server at port base {base} is left.")
        else:
            others = [other for other in known_port_bases(layout) if other != base]
            hint = f"; there is one at {', '.join(map(str, others))}" if others else ""
            console.print(f"Nothing runs at port base {base}{hint}.")
    if failed:
        raise typer.Exit(_FAILED)


def status(
    port_base: Annotated[
        int | None,
        typer.Option(
            "--port-base",
            metavar="PORT",
            min=LOWEST_BASE,
            max=HIGHEST_BASE,
            help="Only this instance.",
            show_default="all",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of instances.")] = False,
) -> None:
    """Show what this checkout runs: models with versions and states, ports, processes, uptime.

    Exits with 0 when every instance shown is running and there is one, with 1 otherwise.
    """
    layout = Layout.of_this_checkout()
    bases = known_port_bases(layout) if port_base is None else [port_base]
    instances = []
    failed = False
    for base in bases:
        try:
            found = status_of(base, layout)
        except ServingError as error:
            _say_error(Console(stderr=True), str(error))
            failed = True
            continue
        if found is not None:
            instances.append(found)
    if as_json:
        typer.echo(json.dumps([instance.model_dump() for instance in instances], indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        for instance in instances:
            print_instance(instance, console)
        if not instances and not failed:
            console.print("Nothing runs. Start with: ./ladder up")
    if failed or not instances or not all(instance.running for instance in instances):
        raise typer.Exit(_FAILED)


def logs(
    port_base: PortBaseOption = 8000,
    follow_log: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the server ends or Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
) -> None:
    """Show the log of tritonserver, its stubs and engines; that of the last server where none runs."""
    files = InstanceFiles.at(port_base, Layout.of_this_checkout())
    if not files.server_log.exists():
        _fail(Console(stderr=True), f'no server was started at port base {port_base}: no file "{files.server_log}"')
    if not follow_log:
        for line in last_lines(files.server_log, lines):
            typer.echo(line)
        return
    try:
        for line in follow(files.server_log, lines, files.supervised):
            typer.echo(line)
    except KeyboardInterrupt:
        return


def _say_error(console: Console, text: str) -> None:
    console.print(Text(f"error: {text}", style="red"), soft_wrap=True)


def _fail(console: Console, text: str) -> NoReturn:
    _say_error(console, text)
    raise typer.Exit(_FAILED)
