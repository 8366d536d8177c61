"""The public function: paths in, report out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lint.trees import checkpoint, python_model, vllm_model, write_tree
from tools.lint import LintInputError, lint_repositories
from tools.lint.findings import Severity
from tools.lint.linter import count_gpus, model_roots, select_rules
from tools.lint.registry import Problem, Scope, all_rules, rule


def test_a_clean_repository(tmp_path: Path) -> None:
    write_tree(tmp_path, python_model())
    report = lint_repositories([tmp_path / "repo"])
    assert report.findings == ()
    assert (report.models, report.failed, report.exit_code) == (1, False, 0)


def test_findings_come_in_reading_order(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {**python_model("max_batch_size: -1\ndynamic_batching { }\nmax_batchsize: 3\n"), **python_model(name="a")},
    )
    write_tree(tmp_path, {"repo/a/config.pbtxt": 'name: "b"\nbackend: "python"\nmax_batch_size: -1\n'})
    report = lint_repositories([tmp_path / "repo"])
    assert [(finding.path.parent.name, finding.line) for finding in report.findings] == [("a", 1), ("a", 3), ("m", 7)]


@pytest.mark.parametrize("name", ["TL411", "negative-count"])
def test_ignores_rules_by_id_and_by_name(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, python_model("max_batch_size: -1\n"))
    assert lint_repositories([tmp_path / "repo"]).failed
    assert lint_repositories([tmp_path / "repo"], ignore=frozenset({name})).findings == ()


def test_a_rule_that_does_not_exist_cannot_be_ignored() -> None:
    with pytest.raises(LintInputError, match=r"'negative-counts' is no rule\. Did you mean 'negative-count'\?"):
        select_rules(frozenset({"negative-counts"}))


def test_strict_makes_warnings_fail(tmp_path: Path) -> None:
    write_tree(tmp_path, python_model("dynamic_batching { }\n"))
    assert not lint_repositories([tmp_path / "repo"]).failed
    assert lint_repositories([tmp_path / "repo"], strict=True).failed


@pytest.mark.slow
def test_the_installed_vllm_is_read_and_not_imported(tmp_path: Path) -> None:
    write_tree(tmp_path, vllm_model({"max_model_length": 4096}))
    # In an interpreter of its own: other tests of this one import vLLM.
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tools.lint import lint_repositories\n"
        "findings = lint_repositories([Path(sys.argv[1])]).findings\n"
        "print(*[finding.rule_id for finding in findings], 'vllm' in sys.modules)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "repo")], capture_output=True, text=True, check=True, timeout=60
    )
    # TL607 where no vLLM is installed.
    assert ended.stdout in {"TL604 False\n", "TL607 False\n"}


def test_model_paths_start_where_the_engine_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(
        tmp_path, {**vllm_model({"model": "models/a", "tensor_parallel_size": 3}), **checkpoint("home/models/a")}
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LADDER_HOME", raising=False)
    assert "TL612" not in {finding.rule_id for finding in lint_repositories([tmp_path / "repo"]).findings}
    monkeypatch.setenv("LADDER_HOME", str(tmp_path / "home"))
    assert model_roots() == [tmp_path, tmp_path / "home"]
    assert "TL612" in {finding.rule_id for finding in lint_repositories([tmp_path / "repo"]).findings}


def test_counts_the_gpus_that_the_driver_serves(tmp_path: Path) -> None:
    assert count_gpus(tmp_path / "gpus") == 0
    write_tree(tmp_path, {"gpus/0000:01:00.0/information": "", "gpus/0000:02:00.0/information": ""})
    assert count_gpus(tmp_path / "gpus") == 2


def test_the_same_repository_given_twice_is_no_clash(tmp_path: Path) -> None:
    write_tree(tmp_path, python_model())
    assert lint_repositories([tmp_path / "repo", tmp_path / "repo"]).findings == ()


def test_there_are_many_rules_with_names_of_their_own() -> None:
    rules = all_rules()
    assert len(rules) >= 40
    assert len({entry.slug for entry in rules}) == len(rules)
    assert [entry.id for entry in rules] == sorted(entry.id for entry in rules)


@pytest.mark.parametrize(
    ("rule_id", "slug"), [("TL101", "new"), ("TL999", "directory-name"), ("X1", "new"), ("TL999", "New Rule")]
)
def test_rules_cannot_clash(rule_id: str, slug: str) -> None:
    all_rules()
    with pytest.raises(ValueError, match=f"rule '{rule_id}'"):
        rule(rule_id, slug, Scope.MODEL, Severity.ERROR, reason="r", fix="f")(lambda *_: iter(()))


def test_problems_are_plain_values() -> None:
    assert Problem.__dataclass_params__.frozen  # type: ignore[attr-defined]
