"""The report for people and for editors that follow `path:line:column`."""

from __future__ import annotations

from tools.lint.findings import Finding, LintReport, Severity


def to_text(report: LintReport) -> str:
    """Two lines a finding, and a summary at the end."""
    lines = [line for finding in report.findings for line in _finding_lines(finding)]
    return "\n".join([*lines, summary(report), ""])


def _finding_lines(finding: Finding) -> tuple[str, str]:
    head = f"{finding.place}: {finding.severity} {finding.rule_id} ({finding.slug})"
    return _printable(f"{head}: {finding.message}"), _printable(f"    fix: {finding.fix}")


def _printable(line: str) -> str:
    """Line breaks and control characters out of files and names are shown, not sent to the terminal."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)


def summary(report: LintReport) -> str:
    """What was looked at and what came of it, in one line."""
    looked_at = _counted(report.models, "model")
    if report.manifests:
        looked_at += f" and {_counted(report.manifests, 'manifest')}"
    counts = [_counted(report.count(severity), severity.value) for severity in Severity if report.count(severity)]
    return f"{looked_at}: {', '.join(counts) or 'nothing to report'}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
