"""`./ladder render`: write the model repositories from a profile, or say what differs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.syntax import Syntax

from tools.lint import LintInputError
from tools.lint.formats.text import to_text
from tools.rendering.files import RenderError, RenderReport, check
from tools.rendering.plan import REPOSITORIES
from tools.rendering.publishing import publish
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile
from tools.spec.profile import Profile

_FAILED: Final = 1
_USAGE: Final = 2


def register(app: typer.Typer) -> None:
    """Add the command `render`."""
    app.command("render")(render_command)


def render_command(
    profile: Annotated[
        str, typer.Option(metavar="PROFILE", help="Name of a shipped profile, or path of a YAML file.")
    ] = DEFAULT_PROFILE,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder that gets model_repository/ and ensembles/.", file_okay=False)
    ] = Path(),
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and exit with 1 if a file is stale.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete files in the two repositories that the profile does not render.")
    ] = False,
) -> None:
    """Write every config.pbtxt and model.json from a profile, and lint the result."""
    console = Console(stderr=True)
    if only_check and prune:
        _refuse(console, "--check writes nothing and --prune deletes: give one of them")
    try:
        loaded = load_profile(profile)
        if only_check:
            _check(loaded, out, console, again=_command(profile, out))
        else:
            _render(loaded, out, console, prune=prune)
    except (ProfileError, RenderError, LintInputError, OSError) as error:
        _refuse(console, str(error))


def _check(profile: Profile, root: Path, console: Console, *, again: str) -> None:
    diffs = check(profile, root)
    if not diffs:
        _say(console, f'The rendered files match the profile "{profile.name}".')
        return
    output = Console()
    for diff in diffs:
        if output.is_terminal:
            output.print(Syntax(diff, "diff", background_color="default", word_wrap=True))
        else:
            typer.echo(diff, nl=False)
    _say(console, f'Files that differ from the profile "{profile.name}": {len(diffs)}. Run {again}', "red")
    raise typer.Exit(_FAILED)


def _render(profile: Profile, out: Path, console: Console, *, prune: bool) -> None:
    publication = publish(profile, out, prune=prune)
    _print_rendering(publication.rendering, profile, console, pruned=prune)
    typer.echo(to_text(publication.lint), nl=False, err=True)
    if publication.lint.failed:
        raise typer.Exit(_FAILED)


def _print_rendering(report: RenderReport, profile: Profile, console: Console, *, pruned: bool) -> None:
    for path in report.written:
        _say(console, f"wrote {path}")
    for path in report.stray:
        _say(console, f"deleted {path}" if pruned else f"left alone, not of this profile: {path} (--prune deletes it)")
    where = " and ".join(str(repository) for repository in REPOSITORIES)
    counts = f"{len(report.written)} files written, {len(report.unchanged)} unchanged"
    _say(console, f'Profile "{profile.name}" in {where}: {counts}.')


def _command(profile: str, out: Path) -> str:
    words = ["./ladder", "render"]
    if profile != DEFAULT_PROFILE:
        words += ["--profile", profile]
    if out != Path():
        words += ["--out", str(out)]
    return shlex.join(words)


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _refuse(console: Console, message: str) -> NoReturn:
    _say(console, message, "red")
    raise typer.Exit(_USAGE)
