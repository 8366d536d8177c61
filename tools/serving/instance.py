"""One running server of this checkout: where its files lie, and what its supervisor writes down about it.

The supervisor holds the instance's lock for as long as it lives, so "is it running" needs no process id to be true.
Standard library only: the supervisor starts in a few milliseconds, and survives changes of the environments.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import is_held
from tools.bootstrap.whole_file import whole_file
from tools.serving.errors import ServingError

Phase = Literal["starting", "running", "stopping", "failed"]


@dataclass(frozen=True)
class InstanceFiles:
    """The files of the instance at one port base."""

    folder: Path

    @classmethod
    def at(cls, port_base: int, layout: Layout) -> Self:
        return cls(layout.runs / str(port_base))

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def supervisor_log(self) -> Path:
        return self.folder / "supervisor.log"

    def supervised(self) -> bool:
        """True while a supervisor lives."""
        return is_held(self.lock)


@dataclass(frozen=True)
class Instance:
    """What is known of an instance. `started` is in seconds since the epoch, `server` is 0 before there is a process.

    `profile` is empty for a server that was given repositories, and `models` names what it was asked to load.

    `sockets` and `shared_memory` name what has to be removed when it is over.
    """

    id: str
    port_base: int
    profile: str
    repositories: tuple[str, ...]
    models: tuple[str, ...]
    sockets: str
    started: float = 0.0
    supervisor: int = 0
    server: int = 0
    detached: bool = False
    phase: Phase = "starting"
    reason: str = ""

    @property
    def shared_memory(self) -> str:
        """Prefix of the instance's files in /dev/shm."""
        return f"ladder-{self.id}-"

    @property
    def title(self) -> str:
        """What it serves, for people."""
        return f'profile "{self.profile}"' if self.profile else f"repositories {', '.join(self.repositories)}"

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """The instance out of its JSON form. Raises TypeError or KeyError for that of another version."""
        lists = {name: tuple(fields[name]) for name in ("repositories", "models")}
        return cls(**{**fields, **lists})

    @classmethod
    def read(cls, files: InstanceFiles) -> Self | None:
        """The instance written down in a folder; None when there is none. Raises ServingError for a damaged file."""
        try:
            return cls.from_fields(json.loads(files.state.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ServingError(
                f'"{files.state}" is not what a supervisor writes ({type(error).__name__}: {error}): remove it; '
                f"./ladder doctor --port-base {files.folder.name} names what still holds those ports"
            ) from error

    def write(self, files: InstanceFiles) -> None:
        files.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(files.state) as draft:
            draft.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def new_id(port_base: int) -> str:
    """An id that no other instance has, in this checkout or another."""
    return f"{port_base}-{secrets.token_hex(4)}"


def known_port_bases(layout: Layout) -> list[int]:
    """Port bases of this checkout that have anything written down, lowest first."""
    return sorted(int(file.parent.name) for file in layout.runs.glob("*/state.json") if file.parent.name.isdecimal())
