"""Bringing the artifacts of a profile into place before its models are served."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.artifacts.catalogue import check_obtainable, is_complete
from tools.artifacts.errors import ArtifactError
from tools.bootstrap.layout import Layout

_TAIL_LINES = 15


def provide(folder: Path, display_name: str, layout: Layout, report: Callable[[str], None]) -> None:
    """Returns once the artifact is complete; `report` gets the phases of making it. Raises ArtifactError."""
    if is_complete(folder):
        return
    check_obtainable(folder, display_name)
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = layout.logs / f"artifact-{folder.name}.log"
    command = [sys.executable, "-I", "-X", "utf8", str(layout.home / "tools" / "artifacts"), str(folder)]
    with log.open("w", encoding="utf-8") as errors:
        maker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8")
        try:
            for line in maker.stdout or ():
                report(line.rstrip())
            code = maker.wait()
        finally:
            # A Ctrl-C reaches the maker as well: it removes what it has written, and only then it is over.
            if maker.poll() is None:
                maker.terminate()
                maker.wait()
    if code != 0:
        tail = log.read_text(encoding="utf-8").splitlines()[-_TAIL_LINES:]
        raise ArtifactError("\n".join([f'"{folder}" could not be made:', *(f"  {line}" for line in tail)]))
