"""What stands before a start: the profile's artifacts, its rendered repositories, and their lint."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.provision import check_gate, provide_for
from tools.bootstrap.environments import ENGINE, Stamp
from tools.bootstrap.layout import Layout
from tools.lint.findings import LintReport
from tools.lint.linter import lint_repositories
from tools.rendering.files import RenderReport, render
from tools.rendering.plan import REPOSITORIES, chat_name
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


def prepare(
    profile: Profile,
    layout: Layout,
    report: Callable[[str], None],
    *,
    models: Collection[str] = (),
    accept_failed_artifacts: bool = False,
) -> Prepared:
    """Makes the artifacts of `models` (of all, when none is named), renders, lints; `report` gets each step.

    Raises ServingError, ArtifactError (an artifact that failed its gate is one, unless accepted), BootstrapError and
    RenderError.
    """
    check_engine(profile, os.environ, layout)
    for path in needed_artifacts(profile, models):
        report(path)
        provide_for(profile, path, layout, lambda phase: report(f"making it: {phase}"))
        if not accept_failed_artifacts:
            check_gate(layout.home / path)
    report("rendering the repositories")
    root = rendering_root(profile, layout)
    rendered = render(profile, root)
    report("linting them")
    repositories = tuple(root / repository for repository in REPOSITORIES)
    return Prepared(repositories, rendered, lint_repositories(repositories))


def check_engine(profile: Profile, variables: Mapping[str, str], layout: Layout) -> None:
    """Raises ServingError for a profile that needs a GPU build of vLLM where nobody has named one."""
    stamp = Stamp.read(ENGINE, layout)
    ours = stamp.accelerator if stamp is not None else "cpu"
    if profile.target.accelerator == "cuda" and ours != "cuda" and not variables.get(ENGINE_PYTHON):
        raise ServingError(
            f'profile "{profile.name}" is for NVIDIA GPUs, and the engine environment holds vLLM\'s CPU build: set '
            f"{ENGINE_PYTHON} to an interpreter that has vLLM for CUDA, msgspec and pyzmq, use docker/compose.yaml, or "
            "set up from an offline kit (tools/airgap/README.md)"
        )


def rendering_root(profile: Profile, layout: Layout) -> Path:
    """The checkout itself for the profile whose files are committed, a private folder for any other.

    A changed copy of that profile is another one, whatever its name.
    """
    return layout.home if profile == load_profile(DEFAULT_PROFILE) else layout.private / "rendered" / profile.name


def needed_artifacts(profile: Profile, models: Collection[str] = ()) -> list[str]:
    """Paths of the artifacts that enabled variants use, or those among `models` and behind them; the tokenizer uses
    the bf16 one.
    """
    paths = {profile.artifacts.bf16.path: None}
    for name, variant in profile.enabled_variants.items():
        if models and not {name, chat_name(name)} & set(models):
            continue
        if isinstance(variant, BaselineVariant):
            paths |= {version.model: None for version in variant.versions.values()}
            continue
        for arguments in variant.versions.values():
            speculative = arguments.get("speculative_config")
            draft = speculative.get("model") if isinstance(speculative, dict) else None
            paths |= {path: None for path in (arguments.get("model"), draft) if isinstance(path, str)}
    return list(paths)
