"""pip in a virtual environment: progress out of its output, and advice out of its errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bootstrap.processes import Runner

COUNTED_EVERY_LINES = re.compile(r"^(Collecting|Requirement already satisfied)\b")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)")

ADVICE = (
    ("No space left on device", "The disk is full: free some space."),
    ("No matching distribution", "No index that pip knows has this version: check pip's indexes (pip config list)."),
    ("CERTIFICATE_VERIFY_FAILED", "TLS was refused: set pip's `cert` option to your certificate bundle."),
    ("ProxyError", "The proxy refused: check HTTPS_PROXY, or pip's `proxy` option."),
    ("Failed to establish a new", "The index is out of reach: check the network and pip's indexes (pip config list)."),
    ("Read timed out", "The index answered too slowly: try again, or set pip's `timeout` option."),
    ("ensurepip is not available", "The venv module is incomplete: apt install python3-venv."),
    ("No module named venv", "The venv module is missing: apt install python3-venv."),
    ("GLIBC_", "The system's C library is too old: glibc 2.35 or newer is needed."),
)


class Pip:
    """pip of the environment at `target`."""

    def __init__(self, target: Path, log: Path, runner: Runner, report: Callable[[str], None]) -> None:
        self._target = target
        self._log = log
        self._runner = runner
        self._report = report

    def install(self, arguments: Sequence[str], what: str, total: int = 1) -> None:
        """`pip install --no-deps ARGUMENTS`, reporting how many of `total` packages are collected."""
        collected = 0

        def count(line: str) -> None:
            nonlocal collected
            if line.startswith("Installing collected packages"):
                self._report(f"unpacking {what}")
            elif COUNTED_EVERY_LINES.match(line):
                collected += 1
                self._report(f"fetching {what}" + (f", {collected} of {total}" if total > 1 else ""))

        self._report(f"fetching {what}")
        self._runner.run(
            [self._target / "bin" / "python", "-I", "-m", "pip", "install", "--no-deps", *arguments], self._log, count
        )


def locked_packages(lock: Path) -> dict[str, str]:
    """Name (as PEP 503 normalises it) to version, for every pin of a lock file whatever its marker."""
    pins = (PIN.match(line) for line in lock.read_text(encoding="utf-8").splitlines())
    return {normalised(pin[1]): pin[2] for pin in pins if pin}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def advice(tail: Sequence[str]) -> str:
    """What to do about the error in pip's last lines."""
    text = "\n".join(tail)
    return next((fix for sign, fix in ADVICE if sign in text), "The lines above name the cause.")
