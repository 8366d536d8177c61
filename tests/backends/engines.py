"""Engine processes for tests: where they run, and interpreters that do not do what they should."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import psutil

from tools.backends.supervisor import Patience

ROOT = Path(__file__).resolve().parents[2]

# Quick to try again, slow to call an engine silent: a busy machine is no dead engine.
HASTY = Patience(backoff_s=(0.05, 0.05, 0.05), stable_s=600.0, ping_interval_s=0.1, silence_s=60.0)


def interpreter(folder: Path, *starts: str) -> str:
    """A program that stands in for Python. Its first start does the first of `starts`, and so on; the last repeats.

    Each is a shell command; PYTHON is the real interpreter, which "engine" runs as it was asked to. The file "starts"
    in `folder` has a line for each start.
    """
    cases = "\n".join(f"    {number}) {_command(start)} ;;" for number, start in enumerate(starts[:-1], start=1))
    script = f"""\
        #!/bin/sh
        PYTHON="{sys.executable}"
        echo started >> "{folder}/starts"
        case $(wc -l < "{folder}/starts") in
        {{cases}}
            *) {_command(starts[-1])} ;;
        esac
        """
    path = folder / "python"
    path.write_text(textwrap.dedent(script).replace("{cases}", cases), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def starts(folder: Path) -> int:
    """How often the stand-in was started."""
    path = folder / "starts"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _command(start: str) -> str:
    return 'exec "$PYTHON" "$@"' if start == "engine" else start
