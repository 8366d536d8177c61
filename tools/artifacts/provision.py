"""Bringing the artifacts of a profile into place before its models are served."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.artifacts import dummy, smollm2
from tools.artifacts.catalogue import check_head, check_obtainable, is_complete
from tools.artifacts.errors import ArtifactError
from tools.artifacts.maker import follow
from tools.artifacts.manifest import Manifest
from tools.artifacts.quality import failed_reasons
from tools.artifacts.quantization.run import Options, quantize
from tools.bootstrap.layout import Layout
from tools.spec.profile import Profile


def provide(folder: Path, display_name: str, layout: Layout, report: Callable[[str], None]) -> None:
    """Returns once the artifact is complete; `report` gets the phases of making it. Raises ArtifactError."""
    if is_complete(folder):
        return
    check_obtainable(folder, display_name)
    command: list[str | Path] = [sys.executable, "-I", "-X", "utf8", layout.home / "tools" / "artifacts", folder]
    follow(command, layout.logs / f"artifact-{folder.name}.log", report, f'"{folder}"')


def provide_for(profile: Profile, path: str, layout: Layout, report: Callable[[str], None]) -> None:
    """`provide` for one of the profile's artifacts; AWQ weights that are missing are quantised, a draft head must be
    there. With dummy weights each is a config.json and a tokenizer. Raises ArtifactError and BootstrapError.
    """
    if profile.artifacts.dummy_weights:
        _provide_dummy(profile, path, layout, report)
        return
    awq, draft = profile.artifacts.awq, profile.artifacts.draft
    if awq is not None and path == awq.path and not is_complete(layout.home / path):
        provide(layout.home / profile.artifacts.bf16.path, profile.model.display_name, layout, report)
        quantize(profile, layout, lambda step: report(str(step)), Options())
    elif draft is not None and path == draft.path:
        check_head(layout.home / path)
    else:
        provide(layout.home / path, profile.model.display_name, layout, report)


def _provide_dummy(profile: Profile, path: str, layout: Layout, report: Callable[[str], None]) -> None:
    if dummy.is_made(layout.home / path):
        return
    tokenizer = layout.models / smollm2.NAME
    if not (tokenizer / "tokenizer.json").is_file():
        provide(tokenizer, smollm2.NAME, layout, report)
    dummy.make(profile, path, layout.home / path, tokenizer, report)


def check_gate(folder: Path) -> None:
    """Raises ArtifactError for an artifact that failed, when it was made or in `./ladder eval`."""
    if reasons := failed_reasons(folder):
        raise ArtifactError(
            f'"{folder}" failed ./ladder eval: {"; ".join(reasons)}. Replace it, or serve it as it is: '
            "./ladder up --accept-failed-artifacts"
        )
    manifest = Manifest.read(folder)
    if manifest is None or manifest.gate is None or manifest.gate.passed:
        return
    raise ArtifactError(
        f'"{folder}" failed its quality gate: {"; ".join(manifest.gate.reasons)}. Quantise it anew with other '
        "calibration texts (./ladder quantize --force --calibration FOLDER), or serve it as it is: "
        "./ladder up --accept-failed-artifacts"
    )
