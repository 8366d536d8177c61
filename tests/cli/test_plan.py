"""`./ladder plan`: exit codes, texts, JSON and the picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from tools.cli.plan import register


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    register(app)

    @app.command("other")
    def other() -> None:
        """Typer shows subcommands only where there are two."""

    return app


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_the_default_profile_fits_this_machine(app: typer.Typer) -> None:
    result = run(app)
    assert result.exit_code == 0, result.output
    assert "cpu-smollm2 on this machine's memory" in result.stdout
    assert "46,592" in result.stdout


def test_a_profile_that_does_not_fit_exits_with_1_and_says_what_would(app: typer.Typer) -> None:
    result = run(app, "--profile", "a100-llama2-7b", "--gpu", "l4")
    assert result.exit_code == 1
    assert "GiB short" in result.stdout
    assert "--gpu a100-40g" in result.stdout


def test_json_has_the_same_verdict_and_exact_bytes(app: typer.Typer) -> None:
    result = run(app, "--profile", "h200-llama2-7b", "--gpu", "h200", "--context", "1024", "--all", "--json")
    plan = json.loads(result.stdout)
    assert (plan["profile"], plan["device"]) == ("h200-llama2-7b", "h200")
    weights = {f"{engine['model']}:{engine['version']}": engine["parts"]["weights"] for engine in plan["engines"]}
    assert weights["llm_bf16:1"] == 13_476_831_232
    assert set(weights) == {
        "llm_baseline:1", "llm_baseline:2", "llm_baseline:3", "llm_bf16:1", "llm_awq:1", "llm_eagle:1",
    }  # fmt: skip
    assert all(engine["context"] == 1024 for engine in plan["engines"])
    assert plan["fits"] is (plan["problems"] == [])
    assert result.exit_code == int(not plan["fits"])


def test_the_picture_is_written(app: typer.Typer, tmp_path: Path) -> None:
    file = tmp_path / "plan.png"
    assert run(app, "--png", str(file)).exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--gpu", "a100"), 'no GPU "a100": did you mean "a100-40g" or "a100-80g"?'),
        (("--profile", "cpu"), 'no profile "cpu"'),
        (("--context", "9000"), "--context 9000 is over the model's 8192 tokens: ask for 8192 at most"),
        (("--context", "4096"), '--context 4096 is over "max_model_len" 2048 of "llm_baseline:1"'),
        (("--png", "/nowhere/plan.png"), '"/nowhere/plan.png" cannot be written'),
    ],
)
def test_what_cannot_be_planned_exits_with_2(app: typer.Typer, arguments: tuple[str, ...], text: str) -> None:
    result = run(app, *arguments)
    assert result.exit_code == 2
    assert f"error: {text}" in result.stderr
    assert result.stdout == ""


def test_a_context_of_nothing_is_a_wrong_command_line(app: typer.Typer) -> None:
    assert run(app, "--context", "0").exit_code == 2
