"""The known mistakes in protobuf text format, as plain values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Mistake(Enum):
    """The known ways to get protobuf text format wrong; each has a rule of its own."""

    OTHER = "other"
    PUNCTUATION = "missing or wrong punctuation"
    BLANK_IN_NAME = "blank in a field name"
    UNKNOWN_FIELD = "unknown field"
    QUOTED_ENUM = "quoted enum"
    UNKNOWN_ENUM = "unknown enum value"
    BARE_PARAMETER = "parameter without string_value"
    REPEATED_SCALAR = "scalar given twice"
    TRAILING_COMMA = "comma after the last element"
    SECOND_OF_ONEOF = "two of a oneof"
    WRONG_TYPE = "value of the wrong type"
    ESCAPE = "invalid escape sequence"
    UNBALANCED = "unbalanced braces"
    JSON = "JSON instead of text format"
    SLASH_COMMENT = "C-style comment"
    PLACEHOLDER = "unrendered placeholder"


LOSSY = frozenset(
    {
        Mistake.OTHER,
        Mistake.UNKNOWN_FIELD,
        Mistake.SECOND_OF_ONEOF,
        Mistake.UNBALANCED,
        Mistake.JSON,
        Mistake.PLACEHOLDER,
    }
)
"""Mistakes that cannot be mended without guessing what was meant."""


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """One mistake, where it is and what to write instead. Lines and columns count from 1."""

    mistake: Mistake
    message: str
    fix: str
    line: int
    column: int


def nearest(name: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """The known name most like `name`, or None where none is near."""
    by_lower = {entry.lower(): entry for entry in known}
    matches = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=cutoff)
    return by_lower[matches[0]] if matches else None
