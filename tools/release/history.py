"""Who changed a release, when, from what to what, and why: one JSON object a line, and nothing is ever taken out."""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import ReleaseError

What = Literal["start", "step", "promote", "pause", "resume", "finish", "abort", "set"]


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
        """Add a line, on the disk when this returns. Raises OSError, and then nothing was added."""
        line = event.model_dump_json().encode() + b"\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            # A line that a crash cut short stays, and is told from this one.
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            try:
                _write(descriptor, b"\n" + line if torn else line)
                os.fsync(descriptor)
            except OSError as error:
                os.ftruncate(descriptor, size)
                error.filename = str(self.path)
                raise
        finally:
            os.close(descriptor)

    def holds(self, event_id: str) -> bool:
        """Whether there is an event of that id."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return False
        # Lines with other ids are not parsed: there may be thousands.
        written = json.dumps(event_id, ensure_ascii=False).encode()
        return any((event := _event(line)) is not None and event.id == event_id for line in lines if written in line)

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
                    f'"{self.path}" line {number} is no event of a release: a crash may have cut it short; what it '
                    "says is lost, take the line out to see the others"
                )
            yield event


def reason(text: str) -> str:
    """Why, as a person has typed it. Raises ReleaseError for bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ReleaseError(
            f"the reason {text!a} is no UTF-8 text: write it in a terminal that is set to UTF-8"
        ) from None
    return text


def who() -> str:
    """USER@HOST of this process; a container's user may have no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _write(descriptor: int, data: bytes) -> None:
    """All of it: a disk that fills up takes a part first, and says so at the next try only."""
    while data:
        data = data[os.write(descriptor, data) :]


def _event(line: bytes) -> Event | None:
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        return None
