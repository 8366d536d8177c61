"""What has to be the same for a figure of an earlier run to stand for one of this run."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from loadtest.options import LoadOptions
from tools.benchmark.machine import Machine
from tools.evaluation.results import GitState

_READ_WHOLE_BELOW: Final = 1 << 22
_BEHIND_FIGURES: Final = ("tools", "loadtest", "model_repository", "ensembles")


class Surroundings(BaseModel):
    """Everything of a run that its cells have in common.

    Attributes:
        commit: of this checkout; `changes` is a hash of what differs from it where figures come from, empty if nothing.
        isolated: whether each rung has a server of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    system: str
    versions: dict[str, str]
    commit: str | None
    changes: str
    isolated: bool

    @classmethod
    def of(cls, machine: Machine, git: GitState, home: Path, *, isolated: bool) -> Self:
        return cls(
            cpu=machine.cpu,
            cores=machine.cores,
            memory_gib=machine.memory_gib,
            gpus=machine.gpus,
            system=machine.system,
            versions=machine.versions,
            commit=git.commit,
            changes=_changes(home) if git.dirty else "",
            isolated=isolated,
        )


class CellKey(BaseModel):
    """A cell stands for another one when their keys are equal.

    Attributes:
        load: the load test without its host, which is another one with each isolated server.
        workers: processes that generate it, 0 for one in all.
        configuration: hash of the rung's rendered files.
        artifacts: hash of each artifact that the rung loads, by its path in the profile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rung: str
    repeat: int
    load: LoadOptions
    workers: int = 0
    surroundings: Surroundings
    configuration: str
    artifacts: dict[str, str]

    def differences(self, other: Self) -> list[str]:
        """Names of what differs, for people."""
        return [*_differing(self, other, _CELL_NAMES), *_differing(self.surroundings, other.surroundings, _RUN_NAMES)]


_CELL_NAMES: Final = {
    "rung": "rung",
    "repeat": "repeat",
    "load": "options of the load test",
    "workers": "number of load generators",
    "configuration": "the rung's configuration",
    "artifacts": "artifacts",
}
# Without memory_gib: a virtual machine may be given more as it uses it.
_RUN_NAMES: Final = {
    "cpu": "machine",
    "cores": "machine",
    "gpus": "machine",
    "system": "operating system",
    "versions": "versions",
    "commit": "git commit",
    "changes": "uncommitted changes",
    "isolated": "one server for all, or one a rung",
}


def hash_of_text(files: Mapping[str, str]) -> str:
    """Hash over named texts."""
    return _digest(f"{name}\0{text}".encode() for name, text in sorted(files.items()))


def hash_of_artifact(folder: Path) -> str:
    """Hash over names and sizes of all files and the contents of small ones: config, tokenizer and manifest, which
    holds the origin of the large ones. Empty for a folder that is not there.
    """
    if not folder.is_dir():
        return ""
    return _digest(map(_described, sorted(_own_files(folder))))


def _own_files(folder: Path) -> Iterable[Path]:
    # The verdict of an evaluation lies beside the weights and says nothing of how fast they are.
    return (
        file
        for file in folder.iterdir()
        if file.is_file() and not file.name.startswith(".") and file.name != "ladder-quality.json"
    )


def _described(file: Path) -> bytes:
    size = file.stat().st_size
    content = file.read_bytes() if size < _READ_WHOLE_BELOW else b""
    return f"{file.name}\0{size}\0".encode() + content


def _changes(home: Path) -> str:
    command = ["git", "-C", str(home), "diff", "HEAD", "--", *_BEHIND_FIGURES]
    difference = subprocess.run(command, capture_output=True, check=True).stdout
    return _digest([difference]) if difference else ""


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _differing(one: BaseModel, other: BaseModel, names: Mapping[str, str]) -> list[str]:
    found = (name for field, name in names.items() if getattr(one, field) != getattr(other, field))
    return list(dict.fromkeys(found))
