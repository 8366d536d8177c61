"""`./ladder draft`: an EAGLE-3 head for a profile's target."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from tools.artifacts.errors import ArtifactError
from tools.artifacts.provision import provide
from tools.bootstrap.interruption import end_in_order, interruption_held
from tools.bootstrap.layout import Layout
from tools.cli.signals import end_in_order_on
from tools.drafting.environment import engine_environment
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile
from tools.spec.profile import Profile

_FAILED: Final = 1
_INTERRUPTED: Final = 130

ProfileOption = Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")]


def register(app: typer.Typer) -> None:
    """Add the command `draft` with its subcommands."""
    draft = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

    @draft.callback()
    def _draft() -> None:
        """Train a head for speculative decoding, or measure one."""

    draft.command("train")(train_command)
    draft.command("eval")(eval_command)
    app.add_typer(draft, name="draft")


def train_command(
    profile: ProfileOption = DEFAULT_PROFILE,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A prompt a line.  [default: the target's own]"),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1000, help="Answer tokens to train on.")] = 50_000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 4,
    batch_tokens: Annotated[int, typer.Option(min=256, help="Tokens of a training batch.")] = 4096,
    steps: Annotated[int, typer.Option(min=1, help="Drafts that training unrolls.")] = 3,
    engines: Annotated[int, typer.Option(min=1, help="vLLM processes that write side by side (GPU).")] = 1,
    at_once: Annotated[int, typer.Option(min=1, help="Conversations an engine answers together.")] = 64,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Folder of the head.  [default: below .ladder/]")
    ] = None,
) -> None:
    """Let the target answer prompts, train a head on the answers, measure its acceptance.

    Run again after an interruption it goes on where it was. Tens of thousands of tokens make a head that runs; a good
    one takes millions, and a GPU.
    """
    layout = Layout.of_this_checkout()
    loaded = _prepared(profile, layout)
    target = layout.home / loaded.artifacts.bf16.path
    work = layout.private / "draft" / loaded.name
    head = (out or work / "head").resolve()
    common = ["--target", str(target), "--work", str(work)]
    writing = ["--tokens", str(tokens), "--engines", str(engines), "--at-once", str(at_once)]
    _stage("generate", *common, *writing, *([] if prompts is None else ["--prompts", str(prompts.resolve())]))
    training = ["--epochs", str(epochs), "--batch-tokens", str(batch_tokens), "--steps", str(steps)]
    _stage("train", *common, "--head", str(head), *training)
    _stage("accept", "--target", str(target), "--head", str(head), "--save")


def eval_command(
    profile: ProfileOption = DEFAULT_PROFILE,
    head: Annotated[
        Path | None, typer.Option(metavar="DIR", file_okay=False, help="Folder of the head.  [default: the profile's]")
    ] = None,
    num_speculative_tokens: Annotated[int, typer.Option("-k", min=1, help="Drafts of a step.")] = 3,
    prompts: Annotated[int, typer.Option(min=1, help="How many of the head's unseen prompts.")] = 50,
    max_tokens: Annotated[int, typer.Option(min=2, help="Longest answer.")] = 128,
    save: Annotated[bool, typer.Option("--save", help="Write the figures into the head's manifest.")] = False,
) -> None:
    """Measure in vLLM how much of what a head drafts its target accepts, on prompts that it was not trained on."""
    layout = Layout.of_this_checkout()
    loaded = _prepared(profile, layout)
    draft = loaded.artifacts.draft
    if head is None and draft is None:
        _fail(f'profile "{loaded.name}" has no "artifacts.draft": name a folder with --head')
    folder = head.resolve() if head is not None else layout.home / draft.path  # type: ignore[union-attr]
    target = layout.home / loaded.artifacts.bf16.path
    measured = ["--num-speculative-tokens", str(num_speculative_tokens)]
    measured += ["--prompts", str(prompts), "--max-tokens", str(max_tokens), *(["--save"] if save else [])]
    _stage("accept", "--target", str(target), "--head", str(folder), *measured)


def _prepared(profile: str, layout: Layout) -> Profile:
    """The profile, its target in place."""
    console = Console(stderr=True, highlight=False)
    try:
        loaded = load_profile(profile)
        with console.status("preparing the target") as status:
            provide(
                layout.home / loaded.artifacts.bf16.path,
                loaded.model.display_name,
                layout,
                lambda phase: status.update(Text(phase)),
            )
    except (ProfileError, ArtifactError) as error:
        _fail(str(error))
    return loaded


def _stage(name: str, *arguments: str) -> None:
    """One stage in a process of its own, which says itself why it fails."""
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    command = [sys.executable, "-m", "tools.drafting", name, *arguments]
    try:
        with contextlib.ExitStack() as ending:
            with interruption_held():
                stage = subprocess.Popen(command, cwd=Layout.of_this_checkout().home, env=engine_environment())
                # Ctrl-C reaches the stage as well, which takes no second signal; one to this process alone does not.
                ending.callback(end_in_order, stage)
            code = stage.wait()
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    if code != 0:
        raise typer.Exit(code if code > 0 else _FAILED)


def _fail(text: str) -> NoReturn:
    Console(stderr=True, highlight=False).print(Text(f"error: {text}", style="red"), soft_wrap=True)
    raise typer.Exit(_FAILED)
