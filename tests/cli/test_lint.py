"""`./ladder lint` as typed: arguments, output, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.lint.trees import Tree, python_model, write_tree
from tools.cli.lint import register
from tools.lint.registry import all_rules

GOOD = python_model()
WARNED = python_model("dynamic_batching { }\n")
BROKEN = python_model("max_batch_size: -1\n")


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)  # several commands, as in the real one
    register(app)
    return app


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(app: typer.Typer, tree: Tree, *arguments: str) -> tuple[int, str, str]:
    write_tree(Path(), tree)
    result = CliRunner().invoke(app, ["lint", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("tree", "options", "code"),
    [
        (GOOD, (), 0),
        (WARNED, (), 0),
        (WARNED, ("--strict",), 1),
        (BROKEN, (), 1),
        (BROKEN, ("--ignore", "TL411"), 0),
        (BROKEN, ("--ignore", "negative-count", "--ignore", "TL101"), 0),
    ],
)
def test_exit_codes(app: typer.Typer, tree: Tree, options: tuple[str, ...], code: int) -> None:
    assert run(app, tree, "repo", *options)[0] == code


def test_text_is_the_default(app: typer.Typer) -> None:
    _, out, _ = run(app, BROKEN, "repo")
    assert out.startswith("repo/m/config.pbtxt:5:1: error TL411 (negative-count): max_batch_size of 'm' is -1\n")
    assert out.endswith("1 model: 1 error\n")


@pytest.mark.parametrize("output_format", ["json", "sarif"])
def test_other_formats(app: typer.Typer, output_format: str) -> None:
    code, out, _ = run(app, BROKEN, "repo", "--format", output_format)
    assert code == 1
    assert "TL411" in json.dumps(json.loads(out))


def test_output_file(app: typer.Typer) -> None:
    code, out, _ = run(app, BROKEN, "repo", "--format", "json", "--output", "report.json")
    assert (code, out) == (1, "")
    assert json.loads(Path("report.json").read_text(encoding="utf-8"))["failed"] is True
    assert sorted(path.name for path in Path().iterdir()) == ["repo", "report.json"]


def test_output_file_that_cannot_be_written(app: typer.Typer) -> None:
    code, _, err = run(app, GOOD, "repo", "--output", "absent/report.txt")
    assert code == 2
    assert err == "lint: 'absent/report.txt' cannot be written: no such file or directory. Name another --output.\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("absent",), "lint: 'absent' does not exist. Name the folder of a model repository or of one model.\n"),
        ((".",), "Did you mean 'repo'?"),
        (("repo", "--ignore", "TL9999"), "lint: 'TL9999' is no rule."),
        (("repo", "--format", "xml"), "'xml' is not one of"),
        ((), "name at least one model repository"),
    ],
)
def test_could_not_lint(app: typer.Typer, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run(app, GOOD, *arguments)
    assert code == 2
    assert out == ""
    assert says in err


def test_list_rules(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run(app, {}, "--list-rules")
    assert code == 0
    for rule in all_rules():
        assert f"{rule.id}  {rule.slug}" in out
