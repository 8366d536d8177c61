"""Writing a report where the user wants it."""

from __future__ import annotations

from pathlib import Path

from tools.bootstrap.whole_file import whole_file


def write_report_file(path: Path, text: str) -> None:
    """Replaces a file as a whole, so that a reader never sees half a report. Raises OSError.

    A link, a device or a pipe (/dev/stdout, /dev/null, >(command)) is written to and stays what it is.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
        return
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
