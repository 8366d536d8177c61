"""The report for people."""

from __future__ import annotations

from pathlib import Path

from tools.lint.findings import Finding, LintReport, Place, Severity
from tools.lint.formats.text import summary, to_text

FINDING = Finding(
    "TL101",
    "directory-name",
    Severity.ERROR,
    "model 'a' lies in folder 'b'",
    "Rename it.",
    Place(Path("b/config.pbtxt"), 1, 7),
)


def test_two_lines_a_finding_and_a_summary() -> None:
    assert to_text(LintReport((FINDING,), models=2)) == (
        "b/config.pbtxt:1:7: error TL101 (directory-name): model 'a' lies in folder 'b'\n"
        "    fix: Rename it.\n"
        "2 models: 1 error\n"
    )


def test_nothing_to_report() -> None:
    assert to_text(LintReport((), models=1)) == "1 model: nothing to report\n"


def test_summary_counts_manifests_and_severities() -> None:
    note = Finding("TL510", "x", Severity.NOTE, "'x'", "Do.", Place(Path("b")))
    assert (
        summary(LintReport((FINDING, note, note), models=0, manifests=1)) == "0 models and 1 manifest: 1 error, 2 notes"
    )


def test_control_characters_do_not_reach_the_terminal() -> None:
    nasty = Finding(
        "TL101", "x", Severity.ERROR, "model '\x1b[31m\n你好\udcff' is odd", "Rename it.", Place(Path("a\x07b"))
    )
    text = to_text(LintReport((nasty,), models=1))
    assert text.splitlines()[0] == r"a\x07b: error TL101 (x): model '\x1b[31m\n你好\udcff' is odd"
    text.encode("utf-8")
