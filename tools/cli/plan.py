"""`./ladder plan`: will the profile fit a GPU, and how many requests at once?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.planning.bars import chart_of
from tools.planning.devices import device_of
from tools.planning.engines import engines_of
from tools.planning.errors import PlanningError
from tools.planning.picture import write_png
from tools.planning.plan import MemoryPlan, check_context, plan_memory
from tools.planning.terminal import render
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile

_DOES_NOT_FIT: Final = 1
_USAGE: Final = 2


def register(app: typer.Typer) -> None:
    """Add the command `plan`."""
    app.command("plan")(plan_command)


def plan_command(
    profile: Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")] = DEFAULT_PROFILE,
    gpu: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="a100-40g, h200, l4 and the like; auto: the first GPU here; cpu: this machine's memory.  "
            "[default: the profile's target]",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Tokens of a request, prompt and answer.  [default: each engine's max_model_len]"
        ),
    ] = None,
    disabled_too: Annotated[bool, typer.Option("--all", help="Plan the variants that are not enabled too.")] = False,
    png: Annotated[Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Draw the bars as PNG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; sizes are bytes.")] = False,
) -> None:
    """Plan the memory of a profile: what fits a GPU, and how many requests at once.

    Exit code 0: it fits. 1: it does not, and the text says by how much and what would. 2: it could not be planned.
    """
    try:
        plan = _plan(profile, gpu, context, disabled_too=disabled_too)
        if png is not None:
            write_png(chart_of(plan), png)
    except (ProfileError, PlanningError) as error:
        Console(stderr=True, highlight=False).print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_USAGE) from None
    if as_json:
        typer.echo(plan.model_dump_json(indent=2))
    else:
        Console(highlight=False).print(*render(plan), sep="\n")
    raise typer.Exit(0 if plan.fits else _DOES_NOT_FIT)


def _plan(name: str, gpu: str | None, context: int | None, *, disabled_too: bool) -> MemoryPlan:
    profile = load_profile(name)
    device = device_of(gpu, profile.target)
    root = Layout.of_this_checkout().home
    engines = engines_of(profile, root, device.accelerator, disabled_too=disabled_too)
    check_context(context, engines, profile.model.context_length)
    return plan_memory(profile.name, engines, device, context)
