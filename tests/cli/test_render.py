"""`./ladder render`: exit codes and texts."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from tools.cli.render import register

pytestmark = pytest.mark.slow


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    register(app)

    @app.command("other")
    def other() -> None:
        """Typer shows subcommands only where there are two."""

    return app


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["render", *arguments])


def test_render_then_check_succeeds(app: typer.Typer, tmp_path: Path) -> None:
    first = run(app, "--out", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert "wrote model_repository/llm_bf16/config.pbtxt" in first.stderr
    second = run(app, "--out", str(tmp_path))
    assert "wrote" not in second.stderr
    checked = run(app, "--check", "--out", str(tmp_path))
    assert checked.exit_code == 0
    assert 'match the profile "cpu-smollm2"' in checked.stderr


def test_check_writes_nothing_and_exits_with_1_and_a_diff(app: typer.Typer, tmp_path: Path) -> None:
    run(app, "--out", str(tmp_path))
    config = tmp_path / "model_repository" / "llm_bf16" / "config.pbtxt"
    config.write_text("stale\n", encoding="utf-8")
    result = run(app, "--check", "--out", str(tmp_path))
    assert result.exit_code == 1
    assert "-stale" in result.stdout
    assert '+backend: "vllm"' in result.stdout
    assert (
        f'Files that differ from the profile "cpu-smollm2": 1. Run ./ladder render --out {tmp_path}\n' in result.stderr
    )
    assert config.read_text(encoding="utf-8") == "stale\n"


def test_another_profile_is_rendered(app: typer.Typer, tmp_path: Path) -> None:
    assert run(app, "--profile", "h200-llama2-7b", "--out", str(tmp_path)).exit_code == 0
    stale = run(app, "--check", "--out", str(tmp_path))
    assert stale.exit_code == 1
    assert run(app, "--check", "--profile", "h200-llama2-7b", "--out", str(tmp_path)).exit_code == 0


def test_the_printed_diff_can_be_applied(app: typer.Typer, tmp_path: Path) -> None:
    run(app, "--out", str(tmp_path))
    config = tmp_path / "ensembles" / "chat_bf16" / "config.pbtxt"
    fresh = config.read_text(encoding="utf-8")
    config.write_text(fresh.replace("# Request id,", "# " + "long " * 40 + "\n# Request id,"), encoding="utf-8")
    diff = run(app, "--check", "--out", str(tmp_path)).stdout
    removed = [line[1:] for line in diff.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert removed == ["# " + "long " * 40]


def test_check_names_the_command_with_the_users_own_profile(app: typer.Typer, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "tools" / "spec" / "profiles" / "cpu-smollm2.yaml"
    own = tmp_path / "my profile.yaml"
    own.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    result = run(app, "--check", "--profile", str(own), "--out", str(tmp_path))
    assert f"Run ./ladder render --profile '{own}' --out {tmp_path}\n" in result.stderr


def test_findings_of_the_lint_are_printed_and_an_error_exits_with_1(app: typer.Typer, tmp_path: Path) -> None:
    run(app, "--out", str(tmp_path))
    broken = tmp_path / "model_repository" / "own" / "config.pbtxt"
    (broken.parent / "1").mkdir(parents=True)
    broken.write_text('name: "own"\nbackend: "vllm"\ndynamic batching { }\n', encoding="utf-8")
    result = run(app, "--out", str(tmp_path))
    assert result.exit_code == 1
    assert f"{broken}:3" in result.stderr
    assert ": error TL" in result.stderr


def test_an_unknown_profile_exits_with_2(app: typer.Typer, tmp_path: Path) -> None:
    result = run(app, "--profile", "cpu", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert 'no profile "cpu"' in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_check_and_prune_together_exit_with_2(app: typer.Typer, tmp_path: Path) -> None:
    result = run(app, "--check", "--prune", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "--check writes nothing and --prune deletes: give one of them" in result.stderr


def test_strays_are_kept_and_named_and_pruned_when_asked(app: typer.Typer, tmp_path: Path) -> None:
    run(app, "--out", str(tmp_path))
    stray = tmp_path / "ensembles" / "stray.txt"
    stray.write_text("", encoding="utf-8")
    kept = run(app, "--out", str(tmp_path))
    assert kept.exit_code == 0
    assert "left alone, not of this profile: ensembles/stray.txt (--prune deletes it)" in kept.stderr
    assert stray.exists()
    pruned = run(app, "--prune", "--out", str(tmp_path))
    assert "deleted ensembles/stray.txt" in pruned.stderr
    assert not stray.exists()


def test_a_folder_that_cannot_be_written_exits_with_2(app: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "ensembles").write_text("", encoding="utf-8")
    result = run(app, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
