"""Who changed a release, when, from what to what, and why: one JSON object a line, and nothing is ever taken out."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import ReleaseError

What = Literal["start", "step", "promote", "pause", "resume", "finish", "abort", "set"]

_TAIL_BYTES: Final = 1 << 16


class Event(BaseModel):
    """Something that happened to the weights of a route, or was decided about them; then `before` equals `after`.

    `id` is unique; `at` is in seconds since the epoch. `who` is USER@HOST; a controller that decided by itself says so.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    at: float
    who: str
    what: What
    route: str
    target: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    why: str

    @property
    def when(self) -> str:
        """UTC, to the second."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S")


class History:
    """The file of one instance."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: Event) -> None:
        """Add a line, on the disk when this returns."""
        line = event.model_dump_json().encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # A line that a full disk cut short stays, and is told from this one.
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" + line if torn else line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def holds(self, event_id: str) -> bool:
        """Whether an event of that id is among the latest lines."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - _TAIL_BYTES))
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return False
        return any(event is not None and event.id == event_id for event in map(_event, lines))

    def events(self) -> Iterator[Event]:
        """All events, oldest first. Raises ReleaseError at a line that is none."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return
        for number, line in enumerate(lines, 1):
            event = _event(line)
            if event is None:
                raise ReleaseError(
                    f'"{self.path}" line {number} is no event of a release: a full disk may have cut it short; what it '
                    "says is lost, take the line out to see the others"
                )
            yield event


def who() -> str:
    """USER@HOST of this process; a container's user may have no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _event(line: bytes) -> Event | None:
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        return None
