"""Bringing the artifacts of a profile into place before its models are served."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.artifacts.catalogue import check_obtainable, is_complete
from tools.artifacts.errors import ArtifactError
from tools.artifacts.maker import follow
from tools.artifacts.manifest import Manifest
from tools.bootstrap.layout import Layout


def provide(folder: Path, display_name: str, layout: Layout, report: Callable[[str], None]) -> None:
    """Returns once the artifact is complete; `report` gets the phases of making it. Raises ArtifactError."""
    if is_complete(folder):
        return
    check_obtainable(folder, display_name)
    command: list[str | Path] = [sys.executable, "-I", "-X", "utf8", layout.home / "tools" / "artifacts", folder]
    follow(command, layout.logs / f"artifact-{folder.name}.log", report, f'"{folder}"')


def check_gate(folder: Path) -> None:
    """Raises ArtifactError for an artifact whose manifest says that it failed its measurement."""
    manifest = Manifest.read(folder)
    if manifest is None or manifest.gate is None or manifest.gate.passed:
        return
    raise ArtifactError(
        f'"{folder}" failed its quality gate: {"; ".join(manifest.gate.reasons)}. Quantise it anew with other '
        "calibration texts (./ladder quantize --force --calibration FOLDER), or serve it as it is: "
        "./ladder up --accept-failed-artifacts"
    )
