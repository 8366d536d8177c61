"""Writing a report where the user wants it."""

from __future__ import annotations

import os
from pathlib import Path


def write_report_file(path: Path, text: str) -> None:
    """Replaces a file as a whole, so that a reader never sees half a report. Raises OSError.

    A link, a device or a pipe (/dev/stdout, /dev/null, >(command)) is written to and stays what it is.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
