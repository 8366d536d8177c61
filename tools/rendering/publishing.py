"""Rendering as the project does it: write the files, then lint what tritonserver would load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.lint import LintReport, lint_repositories
from tools.spec.profile import Profile

from .files import RenderReport, remove, render
from .plan import REPOSITORIES


@dataclass(frozen=True, slots=True)
class Publication:
    """What was written, and what the lint says about the two repositories as they lie there now."""

    rendering: RenderReport
    lint: LintReport


def publish(profile: Profile, out_dir: Path, *, prune: bool = False) -> Publication:
    """Render the profile under `out_dir`, delete files it does not give if `prune`, and lint the result.

    Raises RenderError when files cannot be written, LintInputError when they cannot be read back.
    """
    rendering = render(profile, out_dir)
    if prune:
        remove(rendering.stray, out_dir)
    return Publication(rendering, lint_repositories([out_dir / repository for repository in REPOSITORIES]))
