"""What `./ladder up` refuses to serve; the server itself is tests/serving/test_up_e2e.py's."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tools.cli import served as serving_module
from tools.cli import up as module
from tools.cli.app import application
from tools.lint.linter import lint_repositories
from tools.rendering.files import RenderReport
from tools.serving.preparation import Prepared
from tools.serving.server import ServerPlan

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
WITH_ERRORS = FIXTURES / "serving_repository"
CLEAN = Path(__file__).resolve().parents[2] / "model_repository"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServerPlan]:
    """What would have been served, were there a server."""
    plans: list[ServerPlan] = []
    monkeypatch.setattr(module, "require_startable", lambda *_: None)
    monkeypatch.setattr(module, "end_in_order_on", lambda *_: None)
    monkeypatch.setattr(module, "_serve", lambda request, *_, **__: plans.append(request))
    return plans


def up(*arguments: str) -> Result:
    return CliRunner().invoke(application("up"), ["up", *arguments])


def test_a_repository_with_errors_is_refused_with_the_findings(served: list[ServerPlan]) -> None:
    result = up("--repository", str(WITH_ERRORS))
    assert result.exit_code == 1
    assert "1:2: error TL604 (unknown-engine-argument): 'step_s' is no engine argument of vLLM" in result.stderr
    assert result.stderr.endswith(
        "error: the repositories of --repository have errors (above): mend them, or serve them with "
        "--accept-lint-errors\n"
    )
    assert served == []


def test_errors_are_shown_and_served_when_that_is_asked_for(served: list[ServerPlan]) -> None:
    result = up("--repository", str(WITH_ERRORS), "--models", "mock_llm", "--accept-lint-errors")
    assert result.exit_code == 0
    assert "error TL604" in result.stderr
    assert [(plan.repositories, plan.models) for plan in served] == [((WITH_ERRORS,), ("mock_llm",))]


@pytest.mark.slow
def test_a_repository_without_findings_is_served_without_a_word(served: list[ServerPlan]) -> None:
    result = up("--repository", str(CLEAN))
    assert result.exit_code == 0
    assert result.stderr == ""
    assert [plan.repositories for plan in served] == [(CLEAN,)]


def test_what_was_rendered_out_of_a_profile_may_have_no_errors_either(
    served: list[ServerPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = Prepared((WITH_ERRORS,), RenderReport((), (), ()), lint_repositories([WITH_ERRORS]))
    monkeypatch.setattr(serving_module, "prepare", lambda *_, **__: prepared)
    result = up("--models", "mock_llm")
    assert result.exit_code == 1
    assert 'error: the repositories of profile "cpu-smollm2" have errors (above)' in result.stderr
    assert served == []
    assert up("--models", "mock_llm", "--accept-lint-errors").exit_code == 0
    assert [plan.profile for plan in served] == ["cpu-smollm2"]


def test_a_repository_that_is_not_there_is_named(served: list[ServerPlan], tmp_path: Path) -> None:
    result = up("--repository", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert f"{tmp_path}/none" in result.stderr
    assert served == []
