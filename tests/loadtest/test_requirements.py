"""loadtest/requirements.txt has what the load generator imports, as the engine environment pins it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout

HOME = Layout.of_this_checkout().home
OURS = ("loadtest", "tools")


def pins(file: Path) -> dict[str, str]:
    """Versions by normalized name."""
    found = re.findall(r"^([\w.-]+)==([\w.+!-]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {normalized(name): version for name, version in found}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(file: Path) -> Iterator[str]:
    """Full names of all modules that the file may import, wherever in it."""
    package = file.relative_to(HOME).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *((node.module,) if node.module else ())))
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def reachable() -> set[str]:
    """Top-level names of what the load generator imports, through our own modules, that is not ours or Python's."""
    waiting, seen, found = list((HOME / "loadtest").rglob("*.py")), set(), set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in imported(file):
            top = name.partition(".")[0]
            if top in OURS:
                path = HOME.joinpath(*name.split("."))
                waiting += [python for python in (path.with_suffix(".py"), path / "__init__.py") if python.exists()]
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found


def test_the_pins_are_those_of_the_engine_environment() -> None:
    locked = pins(HOME / "tools/bootstrap/locks/engine.txt")
    required = pins(HOME / "loadtest/requirements.txt")

    assert required == {name: locked[name] for name in required}


@pytest.mark.slow
def test_nothing_else_is_imported_and_nothing_more_is_required() -> None:
    owners = packages_distributions()
    # Several distributions share the namespace "google"; we import google.protobuf.
    needed = {normalized("protobuf" if name == "google" else owners[name][0]) for name in reachable()}

    assert needed == set(pins(HOME / "loadtest/requirements.txt"))
