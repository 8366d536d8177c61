"""YAML written by people, checked against a model; every error names the file, the line and the key's path."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


class DocumentError(ValueError):
    """A text is no YAML, no mapping, or not what its model asks for."""


class Document:
    """A mapping and where its keys stand.

    Attributes:
        data: what the file holds, unchecked.
    """

    def __init__(self, text: str, source: str, kind: str) -> None:
        """Parse `text`; `source` is the file's name and `kind` what it should hold, for error texts.

        Raises:
            DocumentError: no YAML, a repeated key, or no mapping.
        """
        self._source = source
        try:
            loader = _UniqueKeyLoader(text)
            self._node = loader.get_single_node()
            data = None if self._node is None else loader.construct_document(self._node)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise DocumentError(f"{source}:{line}: {error.problem or error}") from None
        except RecursionError:
            raise DocumentError(f"{source}: it is nested too deeply for a {kind}: four levels are enough") from None
        except yaml.YAMLError as error:
            raise DocumentError(f"{source}: {error}") from None
        except ValueError as error:
            # A scalar that looks like a date or a number and is none; YAML does not say where.
            raise DocumentError(f"{source}: a value cannot be read ({error}): write it in quotes") from None
        if not isinstance(data, dict):
            raise DocumentError(f"{source}: a {kind} is a mapping of keys to values, this file holds {_kind(data)}")
        self.data: dict[Any, Any] = data

    def check(self, model: type[Model]) -> Model:
        """The mapping as a `model`. Raises DocumentError with a line for each mistake."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            raise DocumentError("\n".join(self._describe(detail) for detail in _causes(error))) from None

    def _describe(self, detail: ErrorDetails) -> str:
        location = _written_location(self.data, detail["loc"], missing=detail["type"] == "missing")
        line = _line(self._node, location)
        path = ".".join(str(part) for part in location)
        message = "this key is required" if detail["type"] == "missing" else detail["msg"]
        return f"{self._source}:{line}: {path + ': ' if path else ''}{message}"


def document_text(path: Path, kind: str, missing: str) -> str:
    """What the file of a `kind` holds; `missing` says what to do where there is none. Raises DocumentError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(f'no {kind} file "{path}": {missing}') from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f'{kind} file "{path}" cannot be read: {error}') from None


def problems_of(error: ValidationError) -> str:
    """What is wrong, as a sentence: for values that do not come from a file."""
    return "; ".join(detail["msg"] for detail in _causes(error))


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """All mistakes but those that follow from others: a list whose items are all wrong counts as an empty one."""
    details = error.errors()
    inside = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    return [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in inside]


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's default keeps the last of two equal keys without a word, and takes half a character for one."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        text = super().construct_scalar(node)
        try:
            str(text).encode()
        except UnicodeEncodeError:
            problem = f"{text!a} holds half of a character that is written as two: write the character itself"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None
        return text

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.constructor.ConstructorError(None, None, "a key is no name", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f'key "{key}" is given twice', key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _written_location(data: Any, location: Location, *, missing: bool) -> Location:
    """`location` without the tags that pydantic adds for unions: only what stands in the file."""
    written: list[str | int] = []
    for index, part in enumerate(location):
        if _holds(data, part):
            data = data[part]
        elif not (missing and index == len(location) - 1):
            continue
        written.append(part)
    return tuple(written)


def _holds(data: Any, part: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _line(node: yaml.Node | None, location: Location) -> int:
    """1-based line of the innermost key or item of `location` that the file holds."""
    line = 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _kind(data: Any) -> str:
    return "nothing" if data is None else f"a {type(data).__name__}"
