"""The report for programs: one object, findings in reading order."""

from __future__ import annotations

import json

from tools.lint.findings import LintReport, Severity


def to_json(report: LintReport) -> str:
    """Paths as given on the command line; `line` and `column` count from 1 and are null for a whole file or folder."""
    value = {
        "findings": [
            {
                "rule": finding.rule_id,
                "slug": finding.slug,
                "severity": finding.severity.value,
                "message": finding.message,
                "fix": finding.fix,
                "path": str(finding.path),
                "line": finding.line,
                "column": finding.column,
            }
            for finding in report.findings
        ],
        "models": report.models,
        "manifests": report.manifests,
        "counts": {severity.value: report.count(severity) for severity in Severity},
        "failed": report.failed,
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
