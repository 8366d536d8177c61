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


def make_folder(folder: Path) -> None:
    """The folder, and those above it, exist afterwards. Raises LoadTestError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(folder, error) from None


def write_whole(path: Path, text: str) -> None:
    """The file holds exactly this text, or what it held before. Raises LoadTestError."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise _refused(path, error) from None
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        draft.unlink(missing_ok=True)


def _refused(path: Path, error: OSError) -> LoadTestError:
    reason = (error.strerror or str(error)).lower()
    advice = _ADVICE.get(error.errno or 0, "name another folder with --out")
    return LoadTestError(f'"{path}" cannot be written: {reason}: {advice}')
