"""tools/lint/README.md lists the rules as they are."""

from __future__ import annotations

from pathlib import Path

from tools.lint.registry import all_rules

README = Path(__file__).resolve().parents[2] / "tools" / "lint" / "README.md"


def test_the_table_lists_every_rule_with_its_severity_and_reason() -> None:
    listed = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("| TL")]
    assert listed == [f"| {rule.id} | `{rule.slug}` | {rule.severity.value} | {rule.reason} |" for rule in all_rules()]
