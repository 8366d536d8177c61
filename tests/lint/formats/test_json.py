"""The report for programs."""

from __future__ import annotations

import json
from pathlib import Path

from tools.lint.findings import Finding, LintReport, Place, Severity
from tools.lint.formats import Format, write_report


def test_everything_is_in_it() -> None:
    finding = Finding("TL101", "directory-name", Severity.WARNING, "model 'ü'", "Rename it.", Place(Path("b/c"), 1, 7))
    whole = Finding("TL301", "no-version", Severity.ERROR, "model 'a'", "Create it.", Place(Path("a")))
    value = json.loads(write_report(LintReport((finding, whole), models=2, manifests=1), Format.JSON))
    assert value == {
        "findings": [
            {
                "rule": "TL101",
                "slug": "directory-name",
                "severity": "warning",
                "message": "model 'ü'",
                "fix": "Rename it.",
                "path": "b/c",
                "line": 1,
                "column": 7,
            },
            {
                "rule": "TL301",
                "slug": "no-version",
                "severity": "error",
                "message": "model 'a'",
                "fix": "Create it.",
                "path": "a",
                "line": None,
                "column": None,
            },
        ],
        "models": 2,
        "manifests": 1,
        "counts": {"error": 1, "warning": 1, "note": 0},
        "failed": True,
    }


def test_names_that_are_no_utf_8_come_through_as_escapes() -> None:
    finding = Finding("TL101", "x", Severity.NOTE, "'a'", "Do.", Place(Path("a\udcff")))
    text = write_report(LintReport((finding,), models=1), Format.JSON)
    text.encode("utf-8")
    assert json.loads(text)["findings"][0]["path"] == "a\udcff"
