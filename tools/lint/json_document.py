"""JSON files with the position of every key: json.loads says what a file holds, not where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.lint.findings import Place

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class JsonProblem:
    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    key: str
    place: Place


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A parsed JSON file. `value` is meaningless where `problem` is set."""

    path: Path
    text: str
    value: Any = None
    problem: JsonProblem | None = None
    duplicates: tuple[DuplicateKey, ...] = ()
    positions: Mapping[KeyPath, tuple[int, int]] = field(default_factory=dict)

    @property
    def object(self) -> Mapping[str, Any] | None:
        """The file's JSON object, or None where it holds anything else."""
        return self.value if self.problem is None and isinstance(self.value, dict) else None

    def at(self, *keys: str | int) -> Place:
        """Where the key at this path stands, or its nearest enclosing key."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.positions:
                return Place(self.path, *self.positions[keys[:length]])
        return Place(self.path)

    def strings(self) -> Iterator[tuple[KeyPath, str]]:
        """Every string value with its path."""
        yield from _strings(self.value, ()) if self.problem is None else ()


def parse_json(path: Path, text: str) -> JsonDocument:
    """Parses `text`. Never raises on any text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return JsonDocument(path, text, problem=_explain(error, text))
    except RecursionError:
        return JsonDocument(path, text, problem=JsonProblem("it is nested too deeply", 1, 1))
    except ValueError as error:  # an integer of more digits than Python converts
        return JsonDocument(path, text, problem=JsonProblem(str(error), 1, 1))
    positions, duplicates = _key_positions(path, text)
    return JsonDocument(path, text, value, None, duplicates, positions)


_CAUSES = (
    (re.compile(r"\s*(\{\{|\{%|\$\{)"), "a template placeholder was not rendered here"),
    (re.compile(r"\s*(True|False|None)\b"), "Python's True, False and None are true, false and null in JSON"),
    (re.compile(r"\s*'"), "JSON strings stand in double quotes"),
    (re.compile(r"\s*(//|#|/\*)"), "JSON has no comments"),
    (re.compile(r"\s*[}\]]"), "there is a comma after the last element"),
)


def _explain(error: json.JSONDecodeError, text: str) -> JsonProblem:
    # The parser stops at the second brace of '{{', and behind the comma of '[1,]'.
    candidates = (text[error.pos :], text[max(0, error.pos - 1) :])
    cause = next((words for rest in candidates for pattern, words in _CAUSES if pattern.match(rest)), None)
    if not text.strip():
        cause = "the file is empty"
    if cause is None and "Illegal trailing comma" in error.msg:
        cause = "there is a comma after the last element"
    reason = error.msg[:1].lower() + error.msg[1:]
    return JsonProblem(f"{reason} ({cause})" if cause else reason, error.lineno, error.colno)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)


def _key_positions(path: Path, text: str) -> tuple[dict[KeyPath, tuple[int, int]], tuple[DuplicateKey, ...]]:
    """Positions of all keys of a valid JSON text (lines and columns from 1), and keys given more than once."""
    positions: dict[KeyPath, tuple[int, int]] = {}
    duplicates: list[DuplicateKey] = []
    open_paths: list[KeyPath] = []
    current: list[str | int] = []  # per open container: the last key, or the index in a list
    line, line_start = 1, 0
    last_string: tuple[str, int, int] | None = None
    for match in _TOKEN.finditer(text):
        piece = match.group()
        if piece in "{[":
            open_paths.append(tuple(current))
            current.append(0 if piece == "[" else "")
        elif piece in "}]":
            open_paths.pop()
            current.pop()
        elif piece == ":" and last_string is not None:
            key, key_line, key_column = last_string
            current[-1] = key
            key_path = tuple(current)
            if key_path in positions:
                duplicates.append(DuplicateKey(key, Place(path, key_line, key_column)))
            positions[key_path] = (key_line, key_column)
        elif piece == "," and isinstance(current[-1], int):
            current[-1] += 1
        elif piece.startswith('"'):
            last_string = (json.loads(piece, strict=False), line, match.start() - line_start + 1)
        breaks = piece.count("\n")
        if breaks:
            line, line_start = line + breaks, match.start() + piece.rindex("\n") + 1
    return positions, tuple(duplicates)


def _strings(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    match value:
        case str():
            yield path, value
        case dict():
            for key, entry in value.items():
                yield from _strings(entry, (*path, key))
        case list():
            for index, entry in enumerate(value):
                yield from _strings(entry, (*path, index))
