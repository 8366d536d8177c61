"""Envoy's configuration and its command line."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap.environments import FLEET
from tools.bootstrap.layout import Layout
from tools.rendering.environment import template_environment

from .errors import FleetError
from .plan import FleetPlan

CONFIG_TEMPLATE = "fleet/envoy.yaml.j2"
_VALIDATE_S = 60


@dataclass(frozen=True)
class ProxyPaths:
    """Files that the configuration names, absolute."""

    admin: str
    weights: str
    weights_folder: str
    access_log: str


def render_config(fleet: FleetPlan, paths: ProxyPaths) -> str:
    """Envoy's bootstrap configuration as YAML. The same fleet and paths give the same text."""
    environment = template_environment()
    lua = environment.get_template("fleet/overload.lua.j2").render(fleet=fleet)
    return environment.get_template(CONFIG_TEMPLATE).render(
        fleet=fleet, paths=paths, overload_lua=lua, template=CONFIG_TEMPLATE, enumerate=enumerate
    )


def binary(layout: Layout) -> Path:
    """Envoy's program. Raises FleetError when its environment is not there."""
    found = sorted((layout.environment(FLEET.name) / "lib").glob("python3.*/site-packages/envoy/_bin/envoy"))
    if not found:
        raise FleetError(
            f'no Envoy in "{layout.environment(FLEET.name)}": ./ladder fleet up prepares it, as {FLEET.name}.txt in '
            f'"{layout.locks}" says'
        )
    return found[0]


def command(program: Path, config: Path) -> tuple[str, ...]:
    """What runs Envoy on a configuration."""
    return (
        str(program),
        "--config-path", str(config),
        # Two workers: it copies bytes, the servers need the cores.
        "--concurrency", "2",
        # Otherwise two Envoys of one machine would meet in shared memory.
        "--disable-hot-restart",
        "--log-level", "warning",
    )  # fmt: skip


def validate(program: Path, config: Path) -> None:
    """Has Envoy read the configuration without running it. Raises FleetError with what it finds wrong."""
    words: Sequence[str] = [str(program), "--mode", "validate", "--config-path", str(config), "--log-level", "error"]
    done = subprocess.run(
        words, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=_VALIDATE_S, check=False
    )
    if done.returncode != 0:
        raise FleetError(f'Envoy refuses "{config}":\n{(done.stderr or done.stdout).strip()}')
