"""`./ladder release`: a new version gets its share of the requests step by step, watched, and goes back by itself."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.cli.connection import PortBaseOption, endpoint_from
from tools.cli.release_view import ReleaseDisplay, history_view, status_view
from tools.cli.signals import end_in_order_on
from tools.client.address import Protocol
from tools.fleet.site import FleetSite
from tools.release.controller import TAKEN_OVER_S, Traffic, wait_until_in_force
from tools.release.errors import ReleaseError, ReleaseFileError
from tools.release.folder import Ask
from tools.release.history import Event
from tools.release.plan import DEFAULT_PLAN
from tools.release.progress import Progress, Stage
from tools.release.site import Site
from tools.release.status import RouteStatus, status_of
from tools.release.steered import Steered
from tools.release.steering import ask, go_on, parse_weights, set_weights, start
from tools.release.weights import Weights, text_of
from tools.serving.errors import ServingError

_FAILED: Final = 1
_ABORTED: Final = 3
_INTERRUPTED: Final = 130
_REFRESH_S: Final = 1.0

T = TypeVar("T")

RouteOption = Annotated[
    str | None, typer.Option("--route", metavar="NAME", help="Route of the release file.  [default: the last one]")
]
WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="Goes into the history.")]
FleetOption = Annotated[
    bool, typer.Option("--fleet", help="Between the servers of a fleet: TARGET is canary or stable, and no version.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the command `release` with its subcommands."""
    release = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

    @release.callback()
    def _release() -> None:
        """Give a new version its share of the requests step by step, watch it, take it back."""

    release.command("status")(status_command)
    release.command("start")(start_command)
    release.command("promote")(promote_command)
    release.command("pause")(pause_command)
    release.command("abort")(abort_command)
    release.command("set")(set_command)
    release.command("history")(history_command)
    app.add_typer(release, name="release")


def start_command(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The new version, MODEL:VERSION.", show_default=False)
    ],
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN", help=f"Name of a shipped plan, or path of a YAML file.  [default: {DEFAULT_PLAN}]"
        ),
    ] = None,
    route: RouteOption = None,
    port_base: PortBaseOption = None,
    fleet: FleetOption = False,
) -> None:
    """Load a version, check it, and walk it through the plan's steps; or go on with its unfinished release.

    Every step is judged against the stable version in the same window. What is worse than the plan's margins is taken
    back by itself. Ctrl-C leaves the weights as they are. Exit code 0: promoted. 3: aborted. 1: something else failed.
    """
    console = Console(highlight=False)
    site = _checked(lambda: _site(port_base, fleet=fleet))
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    ended = _checked(lambda: _walk(site, target, plan, route, console))
    if ended is None:
        return
    if ended.stage is Stage.PROMOTED:
        console.print(
            Text(
                f'Promoted: {text_of(ended.event.after)}. "{ended.stable}" is still loaded, and ./ladder release '
                f"abort{site.option} goes back to it."
            ),
            soft_wrap=True,
        )
        return
    console.print(Text(f"Aborted: {ended.why}", style="red"), soft_wrap=True)
    _checked(lambda: _say_in_force(site, ended.route, ended.event.after, console))
    raise typer.Exit(_ABORTED)


def promote_command(
    all_the_way: Annotated[bool, typer.Option("--all", help="To the last step at once.")] = False,
    why: WhyOption = "",
    port_base: PortBaseOption = None,
    fleet: FleetOption = False,
) -> None:
    """Go to the next step now, without waiting for its judgement; from the last step, end the release."""
    _ask("promote", why, port_base, fleet=fleet, all_the_way=all_the_way)


def pause_command(why: WhyOption = "", port_base: PortBaseOption = None, fleet: FleetOption = False) -> None:
    """Stay at this step. A running controller still takes back what turns out to be worse; `start` goes on."""
    _ask("pause", why, port_base, fleet=fleet)


def abort_command(why: WhyOption = "", port_base: PortBaseOption = None, fleet: FleetOption = False) -> None:
    """Go back to the weights from before the release, also when it is through already."""
    _ask("abort", why, port_base, fleet=fleet)


def set_command(
    weights: Annotated[list[str], typer.Argument(metavar="TARGET=PERCENT...", help="Weights.", show_default=False)],
    route: RouteOption = None,
    why: WhyOption = "",
    port_base: PortBaseOption = None,
    fleet: FleetOption = False,
) -> None:
    """Set weights by hand; targets that are not named share what is left as before."""
    console = Console(highlight=False)
    site = _checked(lambda: _site(port_base, fleet=fleet))
    event = _checked(lambda: set_weights(site, parse_weights(weights, site), route, why or "by hand"))
    console.print(Text(f"{text_of(event.before)} -> {text_of(event.after)}"), soft_wrap=True)
    _checked(lambda: _say_in_force(site, event.route, event.after, console))


def history_command(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the latest events.")] = 20,
    as_json: JsonOption = False,
    port_base: PortBaseOption = None,
    fleet: FleetOption = False,
) -> None:
    """Show who changed what, when (UTC), from what to what, and why."""
    site = _checked(lambda: _site(port_base, fleet=fleet))
    events: list[Event] = _checked(lambda: list(site.folder.history.events()))[-lines:]
    if as_json:
        typer.echo(json.dumps([event.model_dump() for event in events], indent=2, ensure_ascii=False))
    elif events:
        Console(highlight=False).print(history_view(events), soft_wrap=True)
    else:
        typer.echo("Nothing was changed yet.")


def status_command(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Redraw until Ctrl-C.")] = False,
    as_json: JsonOption = False,
    port_base: PortBaseOption = None,
    fleet: FleetOption = False,
) -> None:
    """Show each target's weight and what it got: share, requests, latencies, errors, since the step began."""
    console = Console(highlight=False)
    site = _checked(lambda: _site(port_base, fleet=fleet))
    traffic: dict[str, Traffic] = {}
    if as_json:
        statuses = [status.model_dump(mode="json") for status in _checked(lambda: _statuses(site, traffic))]
        typer.echo(json.dumps(statuses, indent=2, ensure_ascii=False))
        return
    if not follow:
        console.print(_checked(lambda: _statuses_view(site, traffic)))
        return
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_checked(lambda: _statuses_view(site, traffic)), refresh=True)
                time.sleep(_REFRESH_S)
    except KeyboardInterrupt:
        return


def _statuses(site: Steered, traffic: dict[str, Traffic]) -> list[RouteStatus]:
    """`traffic` is by route, kept from one look to the next: what misses a look is told from what is down."""
    for route in site.routes:
        if route not in traffic:
            traffic[route] = site.traffic(route)
    return [status_of(site, route, traffic[route]) for route in site.routes]


def _statuses_view(site: Steered, traffic: dict[str, Traffic]) -> Group:
    return Group(*(status_view(status) for status in _statuses(site, traffic)))


def _walk(site: Steered, target: str, plan: str | None, route: str | None, console: Console) -> Progress | None:
    """The release's end; None when a controller that runs already was told to go on."""
    target = site.target_name(target)
    with site.folder.locked() as ours:
        if not ours:
            _tell_the_other(site, target, console)
            return None
        with ReleaseDisplay(console) as display:
            controller = start(site, target, plan, route, display.show)
            try:
                return controller.run()
            except KeyboardInterrupt:
                console.print(Text(go_on(controller.progress, site)), soft_wrap=True)
                raise


def _tell_the_other(site: Steered, target: str, console: Console) -> None:
    progress = site.folder.progress()
    if progress is None or progress.target != target or not progress.paused:
        raise ReleaseError(
            f"a controller is running (process {site.folder.holder()}): ./ladder release status --follow"
            f"{site.option} shows what it does, ./ladder release abort{site.option} ends it"
        )
    console.print(Text(ask(site, "resume", "").reply), soft_wrap=True)


def _ask(what: Ask, why: str, port_base: int | None, *, fleet: bool, all_the_way: bool = False) -> None:
    console = Console(highlight=False)
    site = _checked(lambda: _site(port_base, fleet=fleet))
    progress = _checked(lambda: ask(site, what, why, all_the_way=all_the_way))
    console.print(Text(f"{progress.reply}; weights: {text_of(progress.event.after)}"), soft_wrap=True)
    _checked(lambda: _say_in_force(site, progress.route, progress.event.after, console))


def _say_in_force(site: Steered, route: str, weights: Weights, console: Console) -> None:
    waited = wait_until_in_force(site.traffic(route), weights)
    if waited is None:
        console.print(
            Text(
                f"Not in force yet after {TAKEN_OVER_S:g} s: ./ladder release status{site.option} and the logs say why",
                style="yellow",
            ),
            soft_wrap=True,
        )
    else:
        console.print(f"In force at the {site.divider} after {waited:.1f} s.")


def _site(port_base: int | None, *, fleet: bool) -> Steered:
    if fleet:
        return FleetSite.at(port_base, Layout.of_this_checkout())
    return Site.at(endpoint_from(None, port_base, Protocol.HTTP).port, Layout.of_this_checkout())


def _checked(do: Callable[[], T]) -> T:
    """What `do` gives; an error ends the command with its text, Ctrl-C with 130."""
    try:
        return do()
    except (ReleaseError, ReleaseFileError, ServingError) as error:
        Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
