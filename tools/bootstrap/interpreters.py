"""Finding Python interpreters, and the shared libpython that Triton's Python backend links against."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bootstrap.errors import BootstrapError

OLDEST = (3, 11)
NEWEST = (3, 13)

# From this version on the wheel's stub links against a libpython of its own.
FIRST_WITH_BUNDLED_LIBPYTHON = (3, 13)

PROBE = """
import json, sys, sysconfig
variable = sysconfig.get_config_var
print(json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "folders": [variable("LIBDIR"), sys.base_prefix + "/lib"],
    "multiarch": variable("MULTIARCH"),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python the environments can be built from. `libpython` is the folder of its libpythonX.Y.so.1.0, if any."""

    executable: Path
    version: tuple[int, int, int]
    libpython: Path | None

    @property
    def minor(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def serves_triton(self) -> bool:
        """True when Triton's Python backend can embed this interpreter."""
        return self.libpython is not None or self.version[:2] >= FIRST_WITH_BUNDLED_LIBPYTHON


def inspect(executable: Path) -> Interpreter | None:
    """The interpreter behind `executable`, or None when it does not run or its version will not do."""
    try:
        answer = subprocess.run(
            [executable, "-I", "-c", PROBE], capture_output=True, text=True, encoding="utf-8", timeout=30, check=True
        )
        found = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    major, minor, micro = found["version"]
    if not OLDEST <= (major, minor) <= NEWEST:
        return None
    folders = [Path(folder) for folder in found["folders"] if folder]
    if found["multiarch"]:
        folders += [folder / found["multiarch"] for folder in folders] + [Path("/usr/lib") / found["multiarch"]]
    return Interpreter(
        executable=Path(found["executable"]),
        version=(major, minor, micro),
        libpython=_folder_holding(f"libpython{major}.{minor}.so.1.0", folders),
    )


def candidates() -> Iterator[Path]:
    """The interpreter in use, then every other Python of a fitting version on PATH."""
    yield Path(sys.executable)
    names = ["python3", *(f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1))]
    for folder in os.get_exec_path():
        for name in names:
            found = shutil.which(name, path=folder)
            if found:
                yield Path(found)


def for_engine() -> Interpreter:
    """The interpreter that runs this code."""
    found = inspect(Path(sys.executable))
    if found is None:
        raise BootstrapError(f'the interpreter "{sys.executable}" does not answer: reinstall it, or set LADDER_PYTHON')
    return found


def for_server(executables: Iterable[Path] | None = None) -> Interpreter:
    """The first interpreter whose libpython Triton's Python backend can load."""
    tried: dict[Path, Interpreter] = {}
    for executable in candidates() if executables is None else executables:
        found = inspect(executable)
        if found is None or found.executable in tried:
            continue
        if found.serves_triton:
            return found
        tried[found.executable] = found
    lines = [
        "no Python on PATH has a shared libpython, which Triton's Python backend loads",
        *(
            f'  "{found.executable}" ({found.minor}): no libpython{found.minor}.so.1.0 in its library folders'
            for found in tried.values()
        ),
        "Debian, Ubuntu: apt install libpython3-dev; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install 3.12; "
        "or set LADDER_PYTHON to a Python that has one",
    ]
    raise BootstrapError("\n".join(lines))


def _folder_holding(name: str, folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / name).exists()), None)
