"""Every rule finds what it is there for, says it in the right place, and keeps quiet otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lint.rules import (
    examples_config,
    examples_engine,
    examples_ensemble,
    examples_kubernetes,
    examples_repository,
    examples_router,
    examples_syntax,
    examples_versions,
    examples_vllm,
)
from tests.lint.rules.example import Example
from tests.lint.trees import ENGINE_ARGUMENTS, Tree, lint_tree
from tools.lint.findings import Finding, Severity
from tools.lint.registry import Rule, all_rules

EXAMPLES: tuple[Example, ...] = (
    *examples_repository.EXAMPLES,
    *examples_syntax.EXAMPLES,
    *examples_versions.EXAMPLES,
    *examples_config.EXAMPLES,
    *examples_vllm.EXAMPLES,
    *examples_engine.EXAMPLES,
    *examples_ensemble.EXAMPLES,
    *examples_kubernetes.EXAMPLES,
    *examples_router.EXAMPLES,
)

SEVERITIES = {rule.id: rule.severity for rule in all_rules()}


def _name(example: Example) -> str:
    return f"{example.rule}-{re.sub(r'[^a-z0-9]+', '-', example.says.lower()).strip('-')[:40]}"


def _lint(root: Path, tree: Tree, example: Example) -> tuple[Finding, ...]:
    arguments = ENGINE_ARGUMENTS if example.vllm_installed else None
    return lint_tree(root, tree, paths=example.paths, engine_arguments=arguments, gpus=example.gpus).findings


@pytest.mark.parametrize("example", EXAMPLES, ids=_name)
def test_finds_the_fault_names_it_and_finds_nothing_else(example: Example, tmp_path: Path) -> None:
    findings = _lint(tmp_path, example.fails, example)
    assert {finding.rule_id for finding in findings} == {example.rule} | example.beside
    for finding in findings:
        assert re.search(r"'[^']+'", finding.message), f"names no object in quotes: {finding.message}"
    matching = [finding for finding in findings if finding.rule_id == example.rule and example.says in finding.message]
    assert matching, f"no message has {example.says!r}: {[finding.message for finding in findings]}"
    assert example.fix in matching[0].fix
    assert matching[0].severity == (example.severity or SEVERITIES[example.rule])
    if example.line is not None:
        assert matching[0].line == example.line


@pytest.mark.parametrize("example", EXAMPLES, ids=_name)
def test_keeps_quiet_when_all_is_well(example: Example, tmp_path: Path) -> None:
    findings = _lint(tmp_path, example.passes, example)
    assert {finding.rule_id for finding in findings} == example.noted, [finding.message for finding in findings]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_an_example(rule: Rule) -> None:
    assert rule.id in {example.rule for example in EXAMPLES}, f"add an example for {rule.id} ({rule.slug})"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_explains_itself_in_one_line(rule: Rule) -> None:
    assert rule.reason.endswith(".")
    assert rule.fix.endswith((".", "?"))
    assert "\n" not in rule.reason
    assert len(rule.reason) < 160


def test_there_are_rules_of_every_severity() -> None:
    assert {rule.severity for rule in all_rules()} == set(Severity)
