"""Files that appear whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from tools.drafting.errors import DraftError


@contextmanager
def whole_file(file: Path) -> Iterator[Path]:
    """A temporary name beside `file` to write to; what is there at the end takes the place of `file`.

    Raises DraftError when writing fails. Then, and after an interruption, `file` is as it was before.
    """
    partial = _partial(file, os.getpid())
    try:
        yield partial
        partial.replace(file)
    except (OSError, SafetensorError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        raise cannot_write(file, error) from error
    finally:
        partial.unlink(missing_ok=True)


def remove_partials_of(writer: int, folder: Path) -> None:
    """Removes what a process that was killed left behind in a folder."""
    for leftover in folder.glob(f".*.{writer}.partial"):
        leftover.unlink(missing_ok=True)


def cannot_write(file: Path, error: Exception) -> DraftError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DraftError(
        f'"{file}" cannot be written ({reason}): free space on its disk, or mend the permissions of its folder, and '
        "run the command again; it goes on where it was"
    )


def _partial(file: Path, writer: int) -> Path:
    return file.with_name(f".{file.name}.{writer}.partial")
