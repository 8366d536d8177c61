"""The release file, watched: what is in force, and what is wrong with the file now."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from tools.release.errors import ReleaseFileError
from tools.release.file import compile_release, read_release
from tools.wire.release import Release, Released

log = logging.getLogger(__name__)

POLL_S = 0.5

# Path, then inode, size and time of the last change in nanoseconds; None for a file that cannot be looked at.
_Signature = tuple[Path, tuple[int, int, int] | None]


class ReleaseWatch:
    """Two files: `running` wins as soon as it exists, `start` is in force until then. A broken file changes nothing."""

    def __init__(self, start: Path, running: Path | None) -> None:
        self._start = start
        self._running = running
        self._seen: _Signature | None = None
        self._release: Release | None = None
        self._source = ""
        self._problem = ""

    @property
    def released(self) -> Released:
        """What is in force, as it was when `look` was called last."""
        return Released(self._release, self._source, self._problem)

    def look(self) -> bool:
        """Read the file if it is not the one that was read last; whether it was."""
        signature = self._signature()
        if signature == self._seen:
            return False
        self._seen = signature
        path = signature[0]
        try:
            self._release = compile_release(read_release(path))
        except ReleaseFileError as error:
            self._problem = str(error)
            log.warning("the release file is broken, what was in force stays in force: %s", error)
        else:
            self._source, self._problem = str(path), ""
        return True

    async def wait(self) -> None:
        """Return when there is something new in `released`."""
        while not self.look():  # noqa: ASYNC110 - the file system tells nobody
            await asyncio.sleep(POLL_S)

    def _signature(self) -> _Signature:
        for path in (self._running, self._start):
            if path is None:
                continue
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            except OSError:
                # It may be there: whoever cannot look must not go back to the start. Reading it says what is wrong.
                return path, None
            return path, (found.st_ino, found.st_size, found.st_mtime_ns)
        return self._start, None
