"""From a profile's name or file to a checked Profile; every error names the file, the line and the key's path."""

from __future__ import annotations

from collections.abc import Hashable
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from .base import nearest
from .profile import Profile

DEFAULT_PROFILE: Final = "cpu-smollm2"

Location = tuple[str | int, ...]


class ProfileError(ValueError):
    """A profile cannot be found, read, parsed or accepted; the text says which and what to do."""


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the project, sorted."""
    return sorted(Path(entry.name).stem for entry in _directory().iterdir() if entry.name.endswith(".yaml"))


def load_profile(name_or_path: str = DEFAULT_PROFILE) -> Profile:
    """The shipped profile of that name, or the one in that YAML file.

    A text with a "/" or a YAML suffix is a path, anything else a name. Raises ProfileError.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return _load_file(Path(name_or_path))
    if name_or_path not in shipped_profiles():
        raise ProfileError(_unknown_name(name_or_path))
    source = f"{name_or_path}.yaml"
    return parse_profile(_directory().joinpath(source).read_text(encoding="utf-8"), source)


def parse_profile(text: str, source: str) -> Profile:
    """Profile in `text`; `source` is the file's name for error texts. Raises ProfileError."""
    try:
        loader = _UniqueKeyLoader(text)
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ProfileError(f"{source}:{line}: {error.problem or error}") from None
    except RecursionError:
        raise ProfileError(f"{source}: it is nested too deeply for a profile: four levels are enough") from None
    except yaml.YAMLError as error:
        raise ProfileError(f"{source}: {error}") from None
    if not isinstance(data, dict):
        raise ProfileError(f"{source}: a profile is a mapping of keys to values, this file holds {_kind(data)}")
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        raise ProfileError("\n".join(_describe(source, node, data, detail) for detail in error.errors())) from None


def _directory() -> resources.abc.Traversable:
    return resources.files(__package__).joinpath("profiles")


def _load_file(path: Path) -> Profile:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileError(
            f'no profile file "{path}": give the path of a YAML file, or one of the shipped names '
            f"({', '.join(shipped_profiles())})"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f'profile file "{path}" cannot be read: {error}') from None
    return parse_profile(text, str(path))


def _unknown_name(name: str) -> str:
    shipped = shipped_profiles()
    guess = nearest(name, shipped)
    question = f' did you mean "{guess}"?' if guess else ""
    return (
        f'no profile "{name}":{question} shipped profiles are {", ".join(shipped)}; '
        "for a file of your own give its path, ending in .yaml"
    )


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's default keeps the last of two equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f'key "{key}" is given twice', key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _describe(source: str, node: yaml.Node | None, data: Any, detail: ErrorDetails) -> str:
    location = _written_location(data, detail["loc"], missing=detail["type"] == "missing")
    line = _line(node, location)
    path = ".".join(str(part) for part in location)
    message = "this key is required" if detail["type"] == "missing" else detail["msg"]
    return f"{source}:{line}: {path + ': ' if path else ''}{message}"


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
