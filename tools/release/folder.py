"""The files of an instance's release: below .ladder/, one folder for what is served at a port base.

`release.yaml` is the running state that the router reads. Everything else is the control's: `progress.json` says where
a release stands, `history.jsonl` what was done, `order.json` what a controller is asked to do, `change.json` which
change by hand is under way, and `lock` is held by whoever is changing anything.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.bootstrap.locking import try_lock
from tools.bootstrap.whole_file import write_durably

from .errors import ReleaseError
from .history import Event, History
from .progress import Progress

M = TypeVar("M", bound=BaseModel)

_WRITTEN_UNDER_LOCK: Final = ("progress.json", "change.json", "release.yaml")

Ask = Literal["pause", "resume", "promote", "abort"]


class Order(BaseModel):
    """What a running controller is asked to do, by whom and why. `all_the_way`: promote to the last step at once."""

    model_config = ConfigDict(frozen=True)

    ask: Ask
    who: str
    why: str = ""
    all_the_way: bool = False
    id: str = Field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True)
class ReleaseFolder:
    """The folder; nothing is read or written before it is asked for."""

    path: Path

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def history(self) -> History:
        return History(self.path / "history.jsonl")

    def progress(self) -> Progress | None:
        """The latest release; None when there was none. Raises ReleaseError for a file of another version."""
        return _read(self.path / "progress.json", Progress)

    def save(self, progress: Progress) -> None:
        """Write the progress whole, by rename; on the disk when this returns."""
        write_durably(self.path / "progress.json", progress.model_dump_json() + "\n")

    def change(self) -> Event | None:
        """A change by hand that may not be done yet."""
        return _read(self.path / "change.json", Event)

    def begin_change(self, event: Event) -> None:
        write_durably(self.path / "change.json", event.model_dump_json() + "\n")

    def end_change(self) -> None:
        (self.path / "change.json").unlink(missing_ok=True)

    def order(self) -> Order | None:
        """What somebody has asked for last."""
        return _read(self.path / "order.json", Order)

    def give(self, order: Order) -> None:
        write_durably(self.path / "order.json", order.model_dump_json() + "\n")

    def take_order_away(self) -> None:
        (self.path / "order.json").unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock; False when somebody else does. It ends with the process, however that ends."""
        descriptor = try_lock(self.lock)
        if descriptor is None:
            yield False
            return
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
            self._clear_up()
            yield True
        finally:
            os.close(descriptor)

    def holder(self) -> str:
        """The process id of whoever holds the lock, or held it last."""
        with suppress(OSError):
            return self.lock.read_text(encoding="ascii").strip() or "unknown"
        return "unknown"

    def _clear_up(self) -> None:
        """Remove what a killed process was writing when it died."""
        for name in _WRITTEN_UNDER_LOCK:
            for leftover in self.path.glob(f".{name}.*"):
                leftover.unlink(missing_ok=True)


def _read(path: Path, model: type[M]) -> M | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ReleaseError(
            f'"{path}" is not what this version of ./ladder release writes ({error.error_count()} differences): remove '
            "it; the weights stay as they are"
        ) from None
