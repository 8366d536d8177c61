"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A temporary name beside `file` to write to; what is there at the end takes the place of `file`.

    After an error or an interruption `file` is as it was before, and the temporary name is gone. Raises OSError, which
    names `file` even where Python names none, as for a disk that is full.
    """
    # Of this thread's own: a process may write the same file from several.
    draft = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        yield draft
        draft.replace(file)
    except OSError as error:
        if error.filename in (None, str(draft)):
            error.filename, error.filename2 = str(file), None
        raise
    finally:
        draft.unlink(missing_ok=True)


def write_durably(file: Path, text: str) -> None:
    """Write `file` whole, its folder too: a reader sees the old text or the new one, also after a power cut.

    On the disk when this returns. Raises OSError.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as draft, draft.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
