"""Severity, places, and when a report fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint.findings import Finding, LintReport, Place, Severity


def finding(severity: Severity, line: int | None = None, rule: str = "TL101") -> Finding:
    return Finding(rule, "slug", severity, "'x' is wrong", "Put it right.", Place(Path("a"), line, None))


@pytest.mark.parametrize(
    ("severities", "strict", "code"),
    [
        ((), False, 0),
        ((Severity.NOTE,), True, 0),
        ((Severity.WARNING,), False, 0),
        ((Severity.WARNING,), True, 1),
        ((Severity.NOTE, Severity.ERROR), False, 1),
    ],
)
def test_exit_code(severities: tuple[Severity, ...], strict: bool, code: int) -> None:
    report = LintReport(tuple(map(finding, severities)), models=1, strict=strict)
    assert report.exit_code == code
    assert report.failed is bool(code)


def test_counts() -> None:
    report = LintReport((finding(Severity.NOTE), finding(Severity.NOTE)), models=1)
    assert [report.count(severity) for severity in Severity] == [0, 0, 2]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place(Path("a/b")), "a/b"),
        (Place(Path("a/b"), 3), "a/b:3"),
        (Place(Path("a/b"), 3, 4), "a/b:3:4"),
    ],
)
def test_places_read_as_editors_expect(place: Place, text: str) -> None:
    assert str(place) == text


def test_reading_order() -> None:
    mixed = [
        finding(Severity.NOTE, 2),
        finding(Severity.WARNING, 9),
        finding(Severity.ERROR, 2),
        finding(Severity.ERROR),
    ]
    ordered = sorted(mixed, key=lambda entry: entry.sort_key)
    assert [(entry.line, entry.severity) for entry in ordered] == [
        (None, Severity.ERROR),
        (2, Severity.ERROR),
        (2, Severity.NOTE),
        (9, Severity.WARNING),
    ]
