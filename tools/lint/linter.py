"""Runs the rules over what was read and gathers the findings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.lint.engines import engines_of
from tools.lint.findings import LintInputError, LintReport
from tools.lint.registry import Rule, Scope, all_rules
from tools.lint.repository import Workspace, read_repositories
from tools.lint.vllm_arguments import installed_engine_arguments


def lint_repositories(
    paths: Sequence[Path], ignore: frozenset[str] = frozenset(), *, strict: bool = False
) -> LintReport:
    """Lints Triton model repositories as one server would load them together.

    Args:
        paths: repositories, folders of single models, or Kubernetes manifests of scalers.
        ignore: ids or slugs of rules to leave out.
        strict: warnings fail too.

    Raises:
        LintInputError: a path is nothing that can be linted, or `ignore` names no rule.
    """
    rules = select_rules(ignore)
    repositories, manifests = read_repositories(paths, model_roots())
    needs_vllm = any(model.is_vllm for repository in repositories for model in repository.models)
    engine_arguments = installed_engine_arguments() if needs_vllm else None
    workspace = Workspace(repositories, manifests, engine_arguments, count_gpus())
    return lint_workspace(workspace, rules, strict=strict)


def lint_workspace(workspace: Workspace, rules: Iterable[Rule], *, strict: bool = False) -> LintReport:
    """Applies the rules to plain values; no file is touched."""
    subjects = {scope: list(_subjects(workspace, scope)) for scope in Scope}
    findings = {
        finding: None
        for rule in rules
        for subject in subjects[rule.scope]
        for finding in rule.apply(*subject, workspace)
    }
    ordered = tuple(sorted(findings, key=lambda finding: finding.sort_key))
    return LintReport(ordered, len(workspace.models), len(workspace.manifests), strict)


def _subjects(workspace: Workspace, scope: Scope) -> Iterator[tuple[Any, ...]]:
    """What the rules of a scope are called with, apart from the workspace."""
    match scope:
        case Scope.WORKSPACE:
            yield ()
        case Scope.REPOSITORY:
            yield from ((repository,) for repository in workspace.repositories)
        case Scope.MODEL:
            yield from ((model,) for model in workspace.models)
        case Scope.ENGINE:
            yield from ((engine,) for model in workspace.models for engine in engines_of(model))
        case Scope.ENSEMBLE:
            yield from ((model,) for model in workspace.models if model.config.is_ensemble)
        case Scope.MANIFEST:
            yield from ((manifest,) for manifest in workspace.manifests)
        case Scope.DOCUMENT:
            yield from ((document,) for manifest in workspace.manifests for document in manifest.documents)


def select_rules(ignore: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
    """All rules but the ignored ones.

    Raises:
        LintInputError: a name in `ignore` is neither a rule's id nor its slug.
    """
    rules = all_rules()
    names = {name for rule in rules for name in (rule.id, rule.slug)}
    for name in sorted(ignore - names):
        near = difflib.get_close_matches(name, sorted(names), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise LintInputError(f"'{name}' is no rule.{hint} './ladder lint --list-rules' names them all.")
    return tuple(rule for rule in rules if not {rule.id, rule.slug} & ignore)


def count_gpus(driver: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """How many GPUs the NVIDIA driver of this machine serves; 0 without a driver."""
    try:
        return sum(1 for _ in driver.iterdir())
    except OSError:
        return 0


def model_roots() -> list[Path]:
    """Where relative model paths start: the working folder, then LADDER_HOME as for the engine's process."""
    home = os.environ.get("LADDER_HOME")
    return [Path.cwd(), *([Path(home)] if home else [])]
