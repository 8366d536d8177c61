"""Writing a run's files: whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

from loadtest.errors import LoadTestError

_ADVICE: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space",
}


def make_folder(folder: Path, *, option: str = "--out") -> None:
    """The folder, and those above it, exist afterwards. Raises LoadTestError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refused(folder, error, option=option) from None


def require_writable(folder: Path) -> None:
    """Raises LoadTestError when nothing could be written into it, or it could not be made. Leaves everything as it was.

    A run is too long to find that out at its end.
    """
    there = folder
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b" ")
            file.flush()
    except OSError as error:
        raise refused(folder, error) from None


def write_whole(path: Path, text: str, *, option: str = "--out") -> None:
    """The file holds exactly this text, or what it held before. Raises LoadTestError, which names the option."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise refused(path, error, option=option) from None
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise refused(path, error, option=option) from None
    finally:
        draft.unlink(missing_ok=True)


def refused(path: Path, error: OSError, *, option: str = "--out") -> LoadTestError:
    """What to say of a file that cannot be written, which `option` named."""
    reason = (error.strerror or str(error)).lower()
    another = "another folder" if option == "--out" else "another"
    advice = _ADVICE.get(error.errno or 0, f"name {another} with {option}")
    return LoadTestError(f'"{path}" cannot be written: {reason}: {advice}')
