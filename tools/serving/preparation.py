"""What stands before a start: the profile's artifacts, its rendered repositories, and their lint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.catalogue import check_head
from tools.artifacts.provision import provide
from tools.bootstrap.layout import Layout
from tools.lint.findings import LintReport
from tools.lint.linter import lint_repositories
from tools.rendering.files import RenderReport, render
from tools.rendering.plan import REPOSITORIES
from tools.serving.command import ENGINE_PYTHON
from tools.serving.errors import ServingError
from tools.spec.loading import DEFAULT_PROFILE, load_profile
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVariant


@dataclass(frozen=True)
class Prepared:
    """Repositories that are ready to be served, and how they came to be."""

    repositories: tuple[Path, ...]
    rendered: RenderReport
    lint: LintReport


def prepare(profile: Profile, layout: Layout, report: Callable[[str], None]) -> Prepared:
    """Makes artifacts, renders, lints; `report` gets each step. Raises ServingError, ArtifactError and RenderError."""
    check_engine(profile, os.environ)
    for path in needed_artifacts(profile):
        report(path)
        if profile.artifacts.draft is not None and path == profile.artifacts.draft.path:
            check_head(layout.home / path)
        provide(layout.home / path, profile.model.display_name, layout, lambda phase: report(f"making it: {phase}"))
    report("rendering the repositories")
    root = rendering_root(profile, layout)
    rendered = render(profile, root)
    report("linting them")
    repositories = tuple(root / repository for repository in REPOSITORIES)
    return Prepared(repositories, rendered, lint_repositories(repositories))


def check_engine(profile: Profile, variables: Mapping[str, str]) -> None:
    """Raises ServingError for a profile that needs a GPU build of vLLM where nobody has named one."""
    if profile.target.accelerator == "cuda" and not variables.get(ENGINE_PYTHON):
        raise ServingError(
            f'profile "{profile.name}" is for NVIDIA GPUs, and the engine environment holds vLLM\'s CPU build: set '
            f"{ENGINE_PYTHON} to an interpreter that has vLLM for CUDA, msgspec and pyzmq, or use docker/compose.yaml"
        )


def rendering_root(profile: Profile, layout: Layout) -> Path:
    """The checkout itself for the profile whose files are committed, a private folder for any other.

    A changed copy of that profile is another one, whatever its name.
    """
    return layout.home if profile == load_profile(DEFAULT_PROFILE) else layout.private / "rendered" / profile.name


def needed_artifacts(profile: Profile) -> list[str]:
    """Paths of the artifacts that enabled variants use; the tokenizer uses the bf16 one."""
    paths = {profile.artifacts.bf16.path: None}
    for variant in profile.enabled_variants.values():
        if isinstance(variant, BaselineVariant):
            paths |= {version.model: None for version in variant.versions.values()}
            continue
        for arguments in variant.versions.values():
            speculative = arguments.get("speculative_config")
            draft = speculative.get("model") if isinstance(speculative, dict) else None
            paths |= {path: None for path in (arguments.get("model"), draft) if isinstance(path, str)}
    return list(paths)
