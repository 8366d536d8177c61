"""What a command is to serve: a profile's repositories, made and linted, or those of somebody else, linted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tools.bootstrap.layout import Layout
from tools.lint.findings import LintReport
from tools.lint.formats import Format, write_report
from tools.lint.linter import lint_repositories
from tools.serving.errors import ServingError
from tools.serving.preparation import Prepared, prepare
from tools.serving.repository import LoadPlan, plan_loading, read_models
from tools.spec.loading import load_profile

ModelsOption = Annotated[
    str, typer.Option("--models", metavar="A,B", help="Serve only these models; ensembles bring their steps.")
]
RepositoryOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--repository",
        help="Serve this model repository instead of the profile's; repeatable.",
        show_default=False,
    ),
]
AcceptFailedArtifactsOption = Annotated[
    bool, typer.Option("--accept-failed-artifacts", help="Serve also what failed its quality gate.")
]
AcceptLintErrorsOption = Annotated[
    bool, typer.Option("--accept-lint-errors", help="Serve also repositories in which the lint finds errors.")
]


@dataclass(frozen=True)
class Served:
    """Repositories and what is loaded from them; `profile` is empty for those of somebody else."""

    profile: str
    repositories: tuple[Path, ...]
    plan: LoadPlan


def wanted_models(models: str) -> list[str]:
    """Names out of "a,b"; none for all models. Raises ServingError for commas alone."""
    names = [name for name in map(str.strip, models.split(",")) if name]
    if models and not names:
        raise ServingError(f'--models "{models}" names no model: write names with commas between them, or leave it out')
    return names


def repositories_to_serve(
    profile: str,
    repository: Sequence[Path] | None,
    models: Sequence[str],
    console: Console,
    *,
    accept_failed_artifacts: bool,
    accept_lint_errors: bool,
) -> Served:
    """Those of `repository`, or of the profile when there is none. Shows what the lint finds.

    Raises ServingError for lint errors that are not accepted and unknown models, and what `prepare` raises.
    """
    if repository:
        repositories = tuple(folder.resolve() for folder in repository)
        linted, source = lint_repositories(repositories), "--repository"
    else:
        prepared = _prepare(profile, models, console, accept_failed_artifacts=accept_failed_artifacts)
        repositories, linted, source = prepared.repositories, prepared.lint, f'profile "{profile}"'
    _require_clean(linted, source, console, accept_errors=accept_lint_errors)
    plan = plan_loading(read_models(repositories), models)
    return Served("" if repository else profile, repositories, plan)


def _prepare(profile: str, models: Sequence[str], console: Console, *, accept_failed_artifacts: bool) -> Prepared:
    """Repositories of the profile, made and linted."""

    def show(text: str) -> None:
        status.update(Text(text))
        if not console.is_terminal:
            console.print(f"  {text}", markup=False)

    with console.status("preparing") as status:
        prepared = prepare(
            load_profile(profile),
            Layout.of_this_checkout(),
            show,
            models=models,
            accept_failed_artifacts=accept_failed_artifacts,
        )
    for path in prepared.rendered.written:
        console.print(f"  rendered {path}", markup=False)
    return prepared


def _require_clean(report: LintReport, source: str, console: Console, *, accept_errors: bool) -> None:
    """Shows what the lint found. Raises ServingError for errors that are not accepted."""
    if report.findings:
        console.print(Text(write_report(report, Format.TEXT)), soft_wrap=True)
    if report.failed and not accept_errors:
        raise ServingError(
            f"the repositories of {source} have errors (above): mend them, or serve them with --accept-lint-errors"
        )
