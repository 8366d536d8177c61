"""SARIF 2.1.0: the structure that code review tools rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.lint.findings import Finding, LintReport, Place, Severity
from tools.lint.formats import Format, write_report
from tools.lint.registry import all_rules


def finding(severity: Severity = Severity.ERROR, place: Place | None = None, rule_id: str = "TL101") -> Finding:
    return Finding(
        rule_id, "x", severity, "model 'a' is wrong", "Put it right.", place or Place(Path("m/config.pbtxt"), 3, 5)
    )


def sarif(*findings: Finding) -> Any:
    return json.loads(write_report(LintReport(findings, models=1), Format.SARIF))


def test_log_and_run() -> None:
    log = sarif(finding())
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    assert len(log["runs"]) == 1
    assert log["runs"][0]["tool"]["driver"]["name"] == "ladder lint"


def test_every_rule_is_described() -> None:
    described = sarif()["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in described] == [rule.id for rule in all_rules()]
    for rule in described:
        assert rule["fullDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in {"error", "warning", "note"}
        assert rule["name"].isalnum()


@pytest.mark.parametrize("severity", list(Severity))
def test_results_point_at_their_rule(severity: Severity) -> None:
    run = sarif(finding(severity, rule_id="TL501"))["runs"][0]
    result = run["results"][0]
    assert result["ruleId"] == "TL501"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "TL501"
    assert result["level"] == severity.value
    assert result["message"]["text"] == "model 'a' is wrong. Put it right."


def test_regions_count_from_one() -> None:
    location = sarif(finding())["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location == {
        "artifactLocation": {"uri": "m/config.pbtxt"},
        "region": {"startLine": 3, "startColumn": 5},
    }


def test_a_whole_file_has_no_region() -> None:
    location = sarif(finding(place=Place(Path("m"))))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": "m"}}


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/ü.json", "a%20b/%C3%BC.json"),
        ("/srv/models/m", "file:///srv/models/m"),
        ("a\udcff", "a%FF"),
    ],
)
def test_paths_are_uris(path: str, uri: str) -> None:
    result = sarif(finding(place=Place(Path(path))))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
