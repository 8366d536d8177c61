"""`./ladder render`: write the model repositories from a profile, or say what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax

from tools.rendering.files import RenderError, RenderReport, check, remove, render
from tools.rendering.plan import REPOSITORIES
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile
from tools.spec.profile import Profile

_STALE = 1
_USAGE = 2


def register(app: typer.Typer) -> None:
    """Add the command `render`."""
    app.command("render")(render_command)


def render_command(
    profile: Annotated[
        str, typer.Option(help="Name of a shipped profile, or path of a YAML file.", show_default=True)
    ] = DEFAULT_PROFILE,
    out: Annotated[
        Path, typer.Option(help="Folder that gets model_repository/ and ensembles/.", file_okay=False)
    ] = Path(),
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and exit with 1 if a file is stale.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete files in the two repositories that the profile does not render.")
    ] = False,
) -> None:
    """Write every config.pbtxt and model.json from the profile, and lint the result."""
    console = Console(stderr=True)
    if only_check and prune:
        _stop(console, "--check writes nothing and --prune deletes: give one of them")
    try:
        loaded = load_profile(profile)
    except ProfileError as error:
        _stop(console, str(error))
    try:
        if only_check:
            _check(loaded, out, console)
        else:
            _render(loaded, out, console, prune=prune)
    except (RenderError, OSError) as error:
        _stop(console, str(error))


def _check(profile: Profile, root: Path, console: Console) -> None:
    diffs = check(profile, root)
    if not diffs:
        console.print(f'The rendered files match the profile "{profile.name}".', highlight=False)
        return
    output = Console()
    for diff in diffs:
        output.print(Syntax(diff, "diff", background_color="default", word_wrap=True))
    console.print(
        f'{len(diffs)} file(s) differ from the profile "{profile.name}": run ./ladder render --profile {profile.name}',
        style="red",
        highlight=False,
    )
    raise typer.Exit(_STALE)


def _render(profile: Profile, out: Path, console: Console, *, prune: bool) -> None:
    report = render(profile, out)
    if prune:
        remove(report.stray, out)
    _print_report(report, profile, console, pruned=prune)


def _print_report(report: RenderReport, profile: Profile, console: Console, *, pruned: bool) -> None:
    for path in report.written:
        console.print(f"wrote {path}", highlight=False)
    for path in report.stray:
        word = "deleted" if pruned else "not from this profile, left alone (--prune deletes it):"
        console.print(f"{word} {path}", style="yellow", highlight=False)
    console.print(
        f'Profile "{profile.name}": {len(report.written)} file(s) written, {len(report.unchanged)} unchanged in '
        f"{', '.join(str(repository) for repository in REPOSITORIES)}.",
        highlight=False,
    )


def _stop(console: Console, message: str) -> None:
    console.print(message, style="red", highlight=False, markup=False)
    raise typer.Exit(_USAGE)
