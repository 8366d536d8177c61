"""`./ladder fleet render`: Kubernetes manifests and monitoring, written or compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from rich.console import Console
from rich.text import Text

from tools.fleet.deployment import Deployment, deployment_files
from tools.rendering.files import RenderError, differences, write_changed
from tools.spec.loading import ProfileError, load_profile

# The one that the image is built with.
DEFAULT_PROFILE: Final = "a100-llama2-7b"
_FAILED: Final = 1
_USAGE: Final = 2
_DEFAULTS: Final = Deployment()
# By what they are in a deployment.
_OPTIONS: Final = {
    "canary_percent": "--canary",
    "gateway_class": "--gateway-class",
    "stable.image": "--image",
    "canary.image": "--canary-image",
}


def render_command(
    profile: Annotated[
        str, typer.Option(metavar="PROFILE", help="Whose GPUs a pod asks for; name of a shipped one, or a path.")
    ] = DEFAULT_PROFILE,
    replicas: Annotated[int, typer.Option(min=1, help="Fewest stable pods.")] = _DEFAULTS.stable.servers,
    most: Annotated[int, typer.Option(min=1, help="Most pods of a track.")] = _DEFAULTS.stable.most_servers,
    image: Annotated[str, typer.Option(help="Image of the stable pods.")] = _DEFAULTS.stable.image,
    canary_image: Annotated[str, typer.Option(help="Image of the canary pods.")] = _DEFAULTS.canary.image,
    canary: Annotated[float, typer.Option(metavar="PERCENT", help="The canary's share.")] = _DEFAULTS.canary_percent,
    gateway_class: Annotated[str, typer.Option(help="The cluster's GatewayClass.")] = _DEFAULTS.gateway_class,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder that gets kubernetes/ and monitoring/.", file_okay=False)
    ] = Path("docker"),
    only_check: Annotated[
        bool, typer.Option("--check", help="Write nothing; print a diff and exit with 1 if a file is stale.")
    ] = False,
) -> None:
    """Write the same fleet for Kubernetes (Gateway API weights), and what Prometheus and Grafana need."""
    console = Console(stderr=True, highlight=False)
    try:
        deployment = TypeAdapter(Deployment).validate_python(
            {
                "stable": {"name": "stable", "image": image, "servers": replicas, "most_servers": most},
                "canary": {"name": "canary", "image": canary_image, "servers": 1, "most_servers": most},
                "canary_percent": canary,
                "gateway_class": gateway_class,
            }
        )
        files = deployment_files(deployment, load_profile(profile))
        if only_check:
            _check(differences(files, out), console)
            return
        written = write_changed(files, out)
    except ValidationError as error:
        _refuse(console, "; ".join(map(_described, error.errors())))
    except (ProfileError, RenderError, OSError) as error:
        _refuse(console, str(error))
    for path in written:
        console.print(Text(f"wrote {out / path}"), soft_wrap=True)
    console.print(f"{len(written)} files written, {len(files) - len(written)} unchanged.")


def _check(diffs: list[str], console: Console) -> None:
    for diff in diffs:
        typer.echo(diff, nl=False)
    if diffs:
        console.print(f"Files that differ: {len(diffs)}. Run ./ladder fleet render", style="red")
        raise typer.Exit(_FAILED)
    console.print("The rendered files are fresh.")


def _described(detail: ErrorDetails) -> str:
    """With the option that it is about; what is wrong with several of them says so itself."""
    option = _OPTIONS.get(".".join(map(str, detail["loc"])))
    return f'{option} "{detail["input"]}": {detail["msg"]}' if option else detail["msg"]


def _refuse(console: Console, text: str) -> NoReturn:
    console.print(Text(f"error: {text}", style="red"), soft_wrap=True)
    raise typer.Exit(_USAGE)
