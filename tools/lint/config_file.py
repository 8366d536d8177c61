"""config.pbtxt, read: its values, what is wrong with its syntax, and the position of every field.

protobuf's own parser decides whether the text is right. Only where it refuses does the forgiving parser explain why,
and its mended text, where that parses, lets the other rules still look at the rest.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tools.lint.findings import Place
from tools.lint.mistakes import Mistake, SyntaxProblem
from tools.lint.schema import ModelConfig, config_from_message
from tools.lint.syntax import Node, parse_forgiving


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A template placeholder inside a string: the field, its whole text in quotes, and the placeholder alone."""

    field: str
    text: str
    placeholder: str
    line: int
    column: int

    @property
    def is_parameter(self) -> bool:
        """True for the value of an entry of `parameters`, which only the backend reads."""
        return self.field == "string_value"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`config` is None where the text cannot be understood; `placeholders` stand inside otherwise valid strings."""

    path: Path
    text: str
    config: ModelConfig | None
    problems: tuple[SyntaxProblem, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    root: Node | None = None

    def at(self, *fields: str | int) -> Place:
        """Where a field stands, e.g. `at("instance_group", 0, "kind")`; where it is absent, what would enclose it."""
        node = self._walk(fields)[-1]
        return Place(self.path) if node is self.root or node is None else Place(self.path, node.line, node.column)

    def entry_at(self, key: str, *fields: str | int) -> Place:
        """Where a map's entry with this key stands; the last of `fields` is the map."""
        *outer, map_name = fields
        parent = self._walk(outer)[-1]
        for node in parent.children if parent is not None else ():
            key_node = node.find("key") if node.name == map_name else None
            if key_node is not None and any(token.text.strip("\"'") == key for token in key_node.values):
                return Place(self.path, node.line, node.column)
        return self.at(*fields)

    def writes(self, *fields: str | int) -> bool:
        """True where the field is written out, even with its default value."""
        names = [name for name in fields if isinstance(name, str)]
        return len(self._walk(fields)) == len(names) + 1

    def _walk(self, fields: Sequence[str | int]) -> list[Node | None]:
        """The nodes on the way to a field, the root first, as far as they are written."""
        found: list[Node | None] = [self.root]
        names = list(fields)
        while names:
            name = str(names.pop(0))
            index = int(names.pop(0)) if names and isinstance(names[0], int) else 0
            node = found[-1].find(name, index) if found[-1] is not None else None
            if node is None:
                break
            found.append(node)
        return found


def parse_config(path: Path, text: str) -> ConfigFile:
    """Parses the text of a config.pbtxt. Never raises on any text."""
    forgiving = parse_forgiving(text, model_config_pb2.ModelConfig.DESCRIPTOR)
    config, refusal = _parse_strict(text)
    if config is not None:
        return ConfigFile(path, text, config, (), _placeholders_in_strings(forgiving.root), forgiving.root)
    problems = forgiving.problems or (_unexplained(refusal),)
    mended = None if forgiving.mended is None else _parse_strict(forgiving.mended)[0]
    return ConfigFile(path, text, mended, problems, _placeholders_in_strings(forgiving.root), forgiving.root)


def _parse_strict(text: str) -> tuple[ModelConfig | None, str]:
    """The configuration, or None and what protobuf says against the text."""
    try:
        with warnings.catch_warnings():
            # Python's protobuf only warns of escape sequences that the server refuses.
            warnings.simplefilter("error", DeprecationWarning)
            return config_from_message(text_format.Parse(text, model_config_pb2.ModelConfig())), ""
    except (text_format.ParseError, UnicodeError, ValueError, RecursionError, DeprecationWarning) as error:
        return None, str(error)


def _unexplained(refusal: str) -> SyntaxProblem:
    """A refusal that the forgiving parser has no name for, with protobuf's own words."""
    match = re.match(r"(\d+):(\d+) : (.*)", refusal, re.DOTALL)
    line, column, reason = (int(match[1]), int(match[2]), match[3]) if match else (1, 1, refusal)
    return SyntaxProblem(
        Mistake.OTHER, f"protobuf refuses the text: {reason}", "Correct the text at this place.", line, column
    )


_WHOLE_JINJA = re.compile(r"\{\{\s*[\w.]+\s*\}\}")
_SHELL = re.compile(r"\$\{\w+\}")


def find_placeholder(value: str) -> str | None:
    """The template placeholder that was left in a string, or None.

    A chat template is Jinja2 by right: a string with statements (`{%`) or with expressions beyond a plain name is not a
    leftover.
    """
    if "{%" in value:
        return None
    match = _SHELL.search(value) or _WHOLE_JINJA.search(value)
    return match[0] if match else None


def _placeholders_in_strings(node: Node) -> tuple[Placeholder, ...]:
    found: list[Placeholder] = []
    for token in node.values:
        placeholder = find_placeholder(token.text) if token.text[:1] in {'"', "'"} else None
        if placeholder is not None:
            found.append(Placeholder(node.name, token.text, placeholder, token.line, token.column))
    for child in node.children:
        found.extend(_placeholders_in_strings(child))
    return tuple(found)
