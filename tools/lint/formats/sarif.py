"""The report as SARIF 2.1.0, the format that code review tools read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tools.lint.findings import Finding, LintReport, Place, Severity
from tools.lint.registry import Rule, all_rules

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(report: LintReport) -> str:
    """One run that describes every rule; each result carries its fix behind the message."""
    rules = all_rules()
    indexes = {rule.id: index for index, rule in enumerate(rules)}
    run = {
        "tool": {"driver": {"name": "ladder lint", "rules": [_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, indexes[finding.rule_id]) for finding in report.findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": rule.slug.replace("-", " ")},
        "fullDescription": {"text": rule.reason},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": _level(rule.severity)},
    }


def _level(severity: Severity) -> str:
    """SARIF's levels have the same names."""
    return severity.value


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    return {
        "ruleId": finding.rule_id,
        "ruleIndex": rule_index,
        "level": _level(finding.severity),
        "message": {"text": f"{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": _location(finding.place)}],
    }


def _location(place: Place) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.path)}}
    if place.line is not None:
        region = {"startLine": place.line}
        location["region"] = region if place.column is None else {**region, "startColumn": place.column}
    return location


def _uri(path: Path) -> str:
    """A file URI for an absolute path, else a reference relative to where the lint ran; other bytes are escaped."""
    if path.is_absolute():
        return "file://" + quote(path.as_posix(), errors="surrogateescape")
    return quote(path.as_posix(), errors="surrogateescape")
