"""A checkout with lock files that install nothing, so that building an environment takes a second or two."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.bootstrap.environments import Environment
from tools.bootstrap.interpreters import Interpreter
from tools.bootstrap.layout import Layout

# Stands in for `python -m venv` and pip: writes down what it is asked, and fails where a test wants it to.
# Without site-packages (-S): it is started a few times in every test.
FAKE_PYTHON = """#!{python} -IS
import pathlib, sys, time
here = pathlib.Path(__file__)
base = here.parents[1] if here.parent.name == "bin" else here.parent
arguments = sys.argv[1:]
with open({calls!r}, "a", encoding="utf-8") as calls:
    calls.write(" ".join(arguments) + "\\n")
if arguments[:3] == ["-I", "-m", "venv"]:
    bin = pathlib.Path(arguments[3]) / "bin"
    bin.mkdir(parents=True)
    (bin / "python").write_bytes(here.read_bytes())
    (bin / "python").chmod(0o755)
elif "pip" in arguments:
    for package in ("one", "two"):
        print("Collecting " + package, flush=True)
    print("Installing collected packages: one, two", flush=True)
{behaviour}
"""


class Checkout:
    """A layout in a temporary folder, and the calls its fake interpreter got."""

    def __init__(self, home: Path, layout: Layout) -> None:
        self.layout = layout
        self._home = home
        self._calls = home / "calls"
        self.behaves("")

    def behaves(self, code: str) -> None:
        """Code that the interpreter runs at the end of each call; `arguments` and `base` are at hand."""
        self.python.write_text(
            FAKE_PYTHON.format(python=sys.executable, calls=str(self._calls), behaviour=code), encoding="utf-8"
        )
        self.python.chmod(0o755)

    @property
    def python(self) -> Path:
        return self._home / "fake-python"

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").splitlines() if self._calls.exists() else []

    def lock(self, name: str, text: str = "one==1\ntwo==2\n") -> None:
        (self.layout.locks / f"{name}.txt").write_text(text, encoding="utf-8")

    def environment(self, name: str = "small", *, torch: bool = False) -> Environment:
        self.lock(name, "one==1\ntorch==2.13.0\n" if torch else "one==1\ntwo==2\n")
        return Environment(
            name=name,
            gigabytes=0.001,
            choose_interpreter=lambda: Interpreter(self.python, (3, 11, 7), Path("/python/lib")),
            first_imports=("one", "two"),
            torch=torch,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    layout = Layout(tmp_path / "home")
    layout.locks.mkdir(parents=True)
    return Checkout(tmp_path, layout)
