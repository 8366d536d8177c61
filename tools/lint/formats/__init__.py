"""Output formats of a lint report: each a function from a report to text."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from tools.lint.findings import LintReport
from tools.lint.formats.json import to_json
from tools.lint.formats.sarif import to_sarif
from tools.lint.formats.text import to_text


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


_WRITERS: dict[Format, Callable[[LintReport], str]] = {
    Format.TEXT: to_text,
    Format.JSON: to_json,
    Format.SARIF: to_sarif,
}


def write_report(report: LintReport, output: Format) -> str:
    """The report as text that ends in a line break and can be written as UTF-8, whatever bytes a file's name has."""
    return _WRITERS[output](report).encode("utf-8", "backslashreplace").decode("utf-8")
