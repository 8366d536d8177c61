"""Which state of this checkout a figure was measured with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from .results import GitState

COMMIT: Final = "LADDER_COMMIT"


def git_state(home: Path) -> GitState:
    """The checkout at `home`; a commit of None where that is no git checkout, or there is no git.

    What LADDER_COMMIT says counts more: a copy that was carried over has no history, or not that of its files.
    """
    if said := os.environ.get(COMMIT):
        return GitState(commit=said, dirty=False)
    commit = _git(home, "rev-parse", "HEAD")
    changes = _git(home, "status", "--porcelain", "--untracked-files=no")
    return GitState(commit=commit or None, dirty=bool(changes))


def _git(home: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(home), *arguments], capture_output=True, text=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
