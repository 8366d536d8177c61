"""`./ladder lint`: reads the command line, writes the report, sets the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.cli.report_file import write_report_file
from tools.lint import LintInputError, Severity, lint_repositories
from tools.lint.formats import Format, write_report
from tools.lint.registry import all_rules

_COULD_NOT_LINT: Final = 2
_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def register(app: typer.Typer) -> None:
    """Add the command `lint`."""
    app.command("lint")(lint)


def lint(
    repositories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="REPO...",
            help="Repositories that one server loads together, folders of single models, or autoscalers' manifests.",
            show_default=False,
        ),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to write the findings.")] = Format.TEXT,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Leave a rule out, by id or name. Repeatable.", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    list_rules: Annotated[
        bool, typer.Option("--list-rules", help="Name every rule and why it is there, then exit.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report to a file instead of the terminal.", show_default=False),
    ] = None,
) -> None:
    """Check Triton model repositories before a server does.

    Exit code 0: nothing that fails. 1: findings. 2: it could not lint.
    """
    if list_rules:
        _print_rules()
        return
    if not repositories:
        raise typer.BadParameter("name at least one model repository, as in './ladder lint model_repository ensembles'")
    try:
        report = lint_repositories(repositories, frozenset(ignore or ()), strict=strict)
    except LintInputError as error:
        _fail(str(error))
    text = write_report(report, output_format)
    if output is not None:
        _write_file(output, text)
    elif output_format is Format.TEXT and sys.stdout.isatty():
        _print_coloured(text)
    else:
        typer.echo(text, nl=False)
    raise typer.Exit(report.exit_code)


def _print_coloured(text: str) -> None:
    """Shows the severity of each finding in its colour; the words are the same as without."""
    coloured = Text(text, end="")
    for severity, style in _STYLES.items():
        coloured.highlight_regex(rf"(?<=: ){severity} TL\d{{3}}(?= \()", style)
    Console(soft_wrap=True).print(coloured)


def _print_rules() -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("rule", "name", "severity", "why"):
        table.add_column(column, overflow="fold", no_wrap=column in {"rule", "severity"})
    for rule in all_rules():
        table.add_row(rule.id, rule.slug, rule.severity.value, rule.reason)
    Console().print(table)


def _write_file(path: Path, text: str) -> None:
    try:
        write_report_file(path, text)
    except OSError as error:
        _fail(f"'{path}' cannot be written: {(error.strerror or str(error)).lower()}. Name another --output.")


def _fail(message: str) -> NoReturn:
    typer.echo(f"lint: {message}", err=True)
    raise typer.Exit(_COULD_NOT_LINT)
