# Rendered by ./ladder render from the profile "cpu-smollm2" and the template model.py.j2.
# Edit those and render again: changes made here are lost, and ./ladder render --check fails.
"""Puts the project on the path and hands over; the model itself is tools.backends.router.model."""

import os
import sys
from pathlib import Path


def _project() -> Path:
    named = os.environ.get("LADDER_HOME")
    candidates = [Path(named)] if named else list(Path(__file__).resolve().parents)
    for folder in candidates:
        if (folder / "tools" / "backends").is_dir():
            return folder
    raise ImportError(
        f'no folder "tools/backends" in {named or "any folder above " + __file__}: '
        "set LADDER_HOME to the project's folder"
    )


sys.path.insert(0, str(_project()))

from tools.backends.router.model import TritonPythonModel  # noqa: E402

__all__ = ["TritonPythonModel"]
