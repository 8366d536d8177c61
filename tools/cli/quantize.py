"""`./ladder quantize`: the profile's AWQ artifact, with progress, and the verdict on it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Losses, Manifest, Method
from tools.artifacts.provision import provide
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import Options, Report, quantize
from tools.artifacts.quantization.texts import DEFAULT_CALIBRATION
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.layout import Layout
from tools.cli.signals import end_in_order_on
from tools.spec.loading import DEFAULT_PROFILE, ProfileError, load_profile

_FAILED = 1
_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command `quantize`."""
    app.command("quantize")(quantize_command)


def quantize_command(
    profile: Annotated[str, typer.Option(help="Name of a shipped profile, or path of a YAML file.")] = DEFAULT_PROFILE,
    method: Annotated[Method, typer.Option(help="Which quantiser makes it.")] = "autoawq",
    calibration: Annotated[
        Path, typer.Option(metavar="PATH", help="File or folder of texts (.txt, .md, .jsonl).", show_default="own set")
    ] = DEFAULT_CALIBRATION,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Calibration tokens, at most.  [default: 4096 on CPU, 65536 on GPU]")
    ] = None,
    clip: Annotated[
        bool | None, typer.Option("--clip/--no-clip", help="Search clipping ranges.  [default: on GPU only]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Make it anew where there is one.")] = False,
) -> None:
    """Make the profile's 4-bit AWQ artifact out of its unquantised one, and measure what it costs.

    An interrupted run goes on after its last finished layer. Exits with 1 when the artifact fails the profile's gate;
    it is kept then, and `./ladder up` refuses it.
    """
    console = Console(stderr=True, highlight=False)
    end_in_order_on(signal.SIGTERM, signal.SIGHUP)
    try:
        loaded, layout = load_profile(profile), Layout.of_this_checkout()
        options = Options(method, calibration, tokens, clip)
        with _shown(console) as report:
            source = layout.home / loaded.artifacts.bf16.path
            provide(source, loaded.model.display_name, layout, lambda phase: report(Step(phase=phase)))
            manifest = quantize(loaded, layout, report, options, anew=force)
    except (ProfileError, ArtifactError, BootstrapError) as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    except KeyboardInterrupt:
        console.print("Interrupted. Finished layers are kept, the same command goes on after them.")
        raise typer.Exit(_INTERRUPTED) from None
    _print(manifest, console)
    if manifest.gate is not None and not manifest.gate.passed:
        raise typer.Exit(_FAILED)


@contextmanager
def _shown(console: Console) -> Iterator[Report]:
    """Yields what takes steps: a bar on a terminal, one line a step elsewhere."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("preparing", total=None)

        def report(step: Step) -> None:
            progress.update(task, description=str(step), completed=step.done or 0, total=step.total)
            if not console.is_terminal:
                console.print(f"  {step}", markup=False)

        yield report


def _print(manifest: Manifest, console: Console) -> None:
    quantization, gate = manifest.quantization, manifest.gate
    if quantization is None or gate is None:
        console.print(f'"{manifest.name}" is there; its manifest says nothing of quantisation.', markup=False)
        return
    losses, recipe = quantization.losses, quantization.recipe
    console.print(f'"{manifest.name}", made with {recipe.method}, group size {recipe.group_size}:', markup=False)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("weights", "loss, nats a token", "perplexity"):
        table.add_column(heading, justify="left" if heading == "weights" else "right")
    rows = (("original", losses.original), ("rounded to nearest", losses.rounded), ("AWQ", losses.quantized))
    for name, loss in rows:
        table.add_row(name, f"{loss:.4f}", f"{Losses.perplexity(loss):.2f}")
    console.print(table)
    calibration = quantization.calibration
    console.print(
        f"{losses.tokens} held-out tokens. Calibrated on {calibration.tokens} tokens of {calibration.texts} texts "
        f"({calibration.texts_cut} of them cut, {calibration.tokens_left_out} tokens left out), "
        f"{quantization.seconds:.0f} s on {quantization.device}, {quantization.threads} threads."
    )
    verdict, style = ("passed", "green") if gate.passed else ("FAILED", "red")
    console.print(Text(f"Gate {verdict}: {'; '.join(gate.reasons)}.", style=style), soft_wrap=True)
