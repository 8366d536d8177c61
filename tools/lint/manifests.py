"""Kubernetes manifests that scale a server: found beside the repositories, read with positions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.lint.findings import Place

_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_MOST_BYTES = 512 * 2**10
_MOST_NODES = 20_000
"""Aliases can make a small YAML file describe a huge tree; no manifest needs this many values."""
_DEEPEST = 6

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One YAML document that describes a HorizontalPodAutoscaler or a KEDA ScaledObject."""

    path: Path
    value: Mapping[str, Any]
    positions: Mapping[KeyPath, tuple[int, int]]

    @property
    def kind(self) -> str:
        return str(self.value.get("kind", ""))

    @property
    def name(self) -> str:
        metadata = self.value.get("metadata")
        return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""

    def at(self, *keys: str | int) -> Place:
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.positions:
                return Place(self.path, *self.positions[keys[:length]])
        return Place(self.path)


@dataclass(frozen=True, slots=True)
class Manifest:
    """`problem` says why the file could not be parsed; `is_template` that it is a template, not yet a manifest."""

    path: Path
    documents: tuple[ManifestDocument, ...] = ()
    problem: str | None = None
    place: Place = field(default_factory=lambda: Place(Path()))
    is_template: bool = False


def find_manifests(root: Path) -> Iterator[Manifest]:
    """All YAML files below `root`, not through symbolic links, that speak of a scaler."""
    base_depth = len(root.parts)
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if len(Path(folder).parts) - base_depth >= _DEEPEST:
            subfolders.clear()
        for name in sorted(files):
            if name.endswith((".yaml", ".yml")):
                manifest = read_manifest(Path(folder) / name)
                if manifest is not None:
                    yield manifest


def read_manifest(path: Path) -> Manifest | None:
    """The manifest, or None where the file has nothing to do with scaling or is no text."""
    try:
        # Opening a pipe waits for whoever writes into it.
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if not any(f"kind: {kind}" in text for kind in _SCALERS):
        return None
    if "{{" in text:
        return Manifest(path, is_template=True, place=Place(path))
    return parse_manifest(path, text)


def parse_manifest(path: Path, text: str) -> Manifest:
    """Parses all documents of the text and keeps those that are scalers. Never raises on any text."""
    documents: list[ManifestDocument] = []
    try:
        for root in yaml.compose_all(text, Loader=yaml.SafeLoader):
            positions: dict[KeyPath, tuple[int, int]] = {}
            value = _plain(root, (), positions)
            if isinstance(value, dict) and value.get("kind") in _SCALERS:
                documents.append(ManifestDocument(path, value, positions))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Place(path) if mark is None else Place(path, mark.line + 1, mark.column + 1)
        return Manifest(path, problem=str(error.problem or error.context or error), place=place)
    except (yaml.YAMLError, _TooLargeError, RecursionError) as error:
        return Manifest(path, problem=str(error).splitlines()[0], place=Place(path))
    return Manifest(path, tuple(documents), place=Place(path))


class _TooLargeError(Exception):
    pass


def _plain(node: yaml.Node | None, path: KeyPath, positions: dict[KeyPath, tuple[int, int]]) -> Any:
    """Dicts, lists and text; scalars stay text, which is all that the rules compare."""
    if node is None:
        return None
    if len(positions) > _MOST_NODES:
        raise _TooLargeError("it holds more values than any manifest needs (a YAML alias used over and over?)")
    positions.setdefault(path, _position(node))
    match node:
        case yaml.MappingNode():
            mapping: dict[str, Any] = {}
            for key, value in node.value:
                name = str(key.value)
                positions[(*path, name)] = _position(key)
                mapping[name] = _plain(value, (*path, name), positions)
            return mapping
        case yaml.SequenceNode():
            return [_plain(entry, (*path, index), positions) for index, entry in enumerate(node.value)]
        case _:
            return str(node.value)


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
