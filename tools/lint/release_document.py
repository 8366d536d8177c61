"""The release file of a router, as the rules see it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tools.lint.findings import Place
from tools.release.errors import ReleaseFileError
from tools.release.file import parse_release
from tools.spec.release import Release, ReleaseTarget

PARAMETER = "RELEASE_FILE"
"""Of config.pbtxt: a model that has it is a router."""


@dataclass(frozen=True, slots=True)
class ReleaseProblem:
    """One thing that is wrong with the file, as whoever reads it says it."""

    message: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ReleaseDocument:
    """`text` is None where the file is not there or cannot be read, `release` where it is broken."""

    path: Path
    text: str | None
    release: Release | None = None
    problems: tuple[ReleaseProblem, ...] = ()

    def at(self, target: ReleaseTarget) -> Place:
        """Where a target stands first."""
        pattern = re.compile(rf"\bmodel:\s*[\"']?{re.escape(target.model)}\b")
        lines = (self.text or "").splitlines()
        return Place(self.path, next((n for n, line in enumerate(lines, start=1) if pattern.search(line)), None))


def parse_release_document(path: Path, text: str | None) -> ReleaseDocument:
    """The file at `path` with this text."""
    if text is None:
        return ReleaseDocument(path, None)
    try:
        return ReleaseDocument(path, text, parse_release(text, ""))
    except ReleaseFileError as error:
        return ReleaseDocument(path, text, None, tuple(map(_problem, str(error).splitlines())))


def _problem(line: str) -> ReleaseProblem:
    found = re.match(r":(\d+): (.*)", line)
    return ReleaseProblem(found[2], int(found[1])) if found else ReleaseProblem(line.removeprefix(": "), None)
