"""Where the files of a fleet lie, and what is written down about it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import is_held, try_lock
from tools.bootstrap.whole_file import write_durably

from .errors import FleetError
from .plan import FleetPlan

Phase = Literal["starting", "loading", "ready", "down", "stopping"]


@dataclass(frozen=True)
class FleetFiles:
    """The files of the fleet at one port base. Weights and releases stay when a fleet ends."""

    folder: Path

    @classmethod
    def at(cls, port_base: int, layout: Layout) -> Self:
        return cls(layout.private / "fleet" / str(port_base))

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def lock(self) -> Path:
        """Held by the process that keeps the fleet, for as long as it lives."""
        return self.folder / "lock"

    @property
    def keeper_log(self) -> Path:
        return self.folder / "keeper.log"

    @property
    def proxy(self) -> Path:
        """Folder of the proxy's process: its state, lock, log and config."""
        return self.folder / "envoy"

    @property
    def config(self) -> Path:
        return self.proxy / "envoy.yaml"

    @property
    def access_log(self) -> Path:
        return self.proxy / "access.log"

    @property
    def weights_folder(self) -> Path:
        """Watched by the proxy, so nothing else may be written here."""
        return self.folder / "weights"

    @property
    def weights(self) -> Path:
        return self.weights_folder / "runtime.json"

    @property
    def release(self) -> Path:
        """What ./ladder release --fleet keeps."""
        return self.folder / "release"

    def kept(self) -> bool:
        """True while a keeper lives."""
        return is_held(self.lock)

    def keep(self) -> int | None:
        """Make this process the keeper for as long as the returned descriptor is open; None when another one is."""
        descriptor = try_lock(self.lock)
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return descriptor

    def keeper(self) -> int | None:
        """Process id of the keeper, or of the last one; None before it has said so.

        Not the state's: a new keeper finds there the one that was killed before it.
        """
        try:
            return int(self.lock.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None


class ProcessState(BaseModel):
    """A server or the proxy as the keeper sees it. `starts` counts from 1; `reason` is why the latest one ended."""

    model_config = ConfigDict(frozen=True)

    name: str
    phase: Phase = "starting"
    starts: int = 0
    reason: str = ""


class FleetState(BaseModel):
    """A fleet, as its keeper writes it down. `admin` is the proxy's socket, `keeper` a process id."""

    model_config = ConfigDict(frozen=True)

    plan: FleetPlan
    keeper: int
    started: float
    admin: str = ""
    proxy: ProcessState
    servers: tuple[ProcessState, ...]

    @property
    def ready(self) -> bool:
        """Whether everything runs."""
        return all(process.phase == "ready" for process in (self.proxy, *self.servers))

    @classmethod
    def read(cls, files: FleetFiles) -> FleetState | None:
        """What is written; None when there is nothing. Raises FleetError for a file of another version."""
        try:
            return cls.model_validate_json(files.state.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise FleetError(
                f'"{files.state}" is not what this version of ./ladder fleet writes ({error.error_count()} '
                f"differences): ./ladder status lists the servers that run; stop them and remove it"
            ) from None

    def write(self, files: FleetFiles) -> None:
        """By rename: a reader sees the old state or the new one."""
        write_durably(files.state, self.model_dump_json(indent=1) + "\n")


def known_fleets(layout: Layout) -> list[int]:
    """Port bases of this checkout's fleets that have a state, lowest first."""
    folder = layout.private / "fleet"
    return sorted(int(file.parent.name) for file in folder.glob("*/state.json") if file.parent.name.isdecimal())
