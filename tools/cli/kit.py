"""`./ladder kit build`: an offline kit for a machine without a package index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tools.airgap.build import KitOptions, build_kit
from tools.airgap.errors import KitError
from tools.bootstrap.layout import Layout

_FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the command `kit` with its subcommand."""
    kit = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

    @kit.callback()
    def _kit() -> None:
        """Offline kits for machines that reach no package index."""

    kit.command("build")(build_command)
    app.add_typer(kit, name="kit")


def build_command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the kit.")],
    python: Annotated[str, typer.Option("--python", help="Python of the machine that gets it.")] = "3.12",
    piece_mb: Annotated[
        int, typer.Option("--piece-mb", min=1, help="Largest piece in megabytes (10^6 bytes), for narrow transfers.")
    ] = 1000,
    left_out: Annotated[
        Path | None,
        typer.Option(
            "--without", metavar="FILE", dir_okay=False, help="Packages the machine has: its `pip freeze`, or names."
        ),
    ] = None,
    lean: Annotated[
        bool, typer.Option("--lean", help="Without kernels that dense models on Hopper do not use.")
    ] = False,
) -> None:
    """Fetch vLLM for CUDA, tritonserver and the tools as wheels, and pack them.

    The machine brings torch, transformers and numpy itself, as NVIDIA's and PyTorch's images do. There:
    ./ladder setup --from-kit DIR
    """
    console = Console(stderr=True, highlight=False)
    try:
        names = frozenset() if left_out is None else frozenset(names_in(left_out))
        options = KitOptions(python, names, lean, piece_mb * 1_000_000)
        with console.status("preparing") as status:

            def say(text: str) -> None:
                status.update(Text(text))
                if not console.is_terminal:
                    console.print(f"  {text}", markup=False)

            kit = build_kit(out.absolute(), options, Layout.of_this_checkout(), say)
    except (KitError, OSError) as error:
        console.print(Text(f"error: {error}", style="red"), soft_wrap=True)
        raise typer.Exit(_FAILED) from None
    size = sum((kit.folder / name).stat().st_size for name in kit.pieces)
    console.print(Text(f'"{kit.folder}": {len(kit.pieces)} pieces, {size / 1e6:,.0f} MB.'), soft_wrap=True)


def names_in(file: Path) -> list[str]:
    """Names of distributions, of lines like "name", "name==1" or "name @ file:///x". Raises KitError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KitError(f'"{file}" cannot be read ({error}): give what `pip freeze` prints on the machine') from None
    words = (line.split("#")[0].replace("==", " ").replace("@", " ").split() for line in lines)
    return [parts[0] for parts in words if parts]
