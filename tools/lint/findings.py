"""What a lint run reports: findings, their severity, and the report that decides the exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Severity(StrEnum):
    """How much a finding matters.

    ERROR: the server refuses the model, the engine does not start, or what is written has no effect.
    WARNING: it loads, but does not do what its author most likely meant.
    NOTE: worth knowing; nothing is wrong yet.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the gravest; for sorting."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder, and where in it. Lines and columns count from 1; None means the whole of it."""

    path: Path
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [str(self.path), self.line, self.column if self.line is not None else None]
        return ":".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a rule has found: what is wrong, with the object in quotes, and what to do about it."""

    rule_id: str
    slug: str
    severity: Severity
    message: str
    fix: str
    place: Place

    @property
    def path(self) -> Path:
        return self.place.path

    @property
    def line(self) -> int | None:
        return self.place.line

    @property
    def column(self) -> int | None:
        return self.place.column

    @property
    def sort_key(self) -> tuple[str, int, int, int, str, str]:
        """Reading order: by file, then top to bottom; at one place the gravest first."""
        line, column = self.place.line or 0, self.place.column or 0
        return (str(self.place.path), line, column, self.severity.rank, self.rule_id, self.message)


@dataclass(frozen=True, slots=True)
class LintReport:
    """The findings of one run, in reading order, and how much was looked at."""

    findings: tuple[Finding, ...]
    models: int
    manifests: int = 0
    strict: bool = False

    @property
    def failed(self) -> bool:
        """True when there is an error or, under `strict`, a warning."""
        failing = {Severity.ERROR, Severity.WARNING} if self.strict else {Severity.ERROR}
        return any(finding.severity in failing for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 clean, 1 failed. (2, could not lint, is an exception: LintInputError.)"""
        return 1 if self.failed else 0

    def count(self, severity: Severity) -> int:
        return Counter(finding.severity for finding in self.findings)[severity]


class LintInputError(Exception):
    """The paths given cannot be linted at all: no such path, not readable, not a model repository."""
