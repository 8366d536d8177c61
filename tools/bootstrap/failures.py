"""How a command ends on an error of the operating system: a full disk, a missing right, a reader that hung up."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_ADVICE: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "clone to a place that can be written",
    errno.EACCES: "give yourself access to it",
    errno.EPERM: "give yourself access to it",
    errno.ENOTDIR: "move what is there instead of a folder",
    errno.EEXIST: "move what is there",
    errno.EISDIR: "move the folder that is there instead of a file",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
}


def describe(error: OSError) -> str:
    """One line: the file, what is wrong with it, what to do. An error without a file is one of the output."""
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else error.filename
    what = f'"{name}"' if name is not None else "the output"
    return f"{what}: {error.strerror or error}: {_ADVICE.get(error.errno or 0, './ladder doctor may know why')}"


def end_on(error: OSError) -> int:
    """Says what happened, unless nobody reads any more, and returns the exit code."""
    if not isinstance(error, BrokenPipeError):
        print(f"ladder: error: {describe(error)}", file=sys.stderr)
    _drop_output()
    return 1


def flushed(code: int) -> int:
    """`code`, once everything printed has arrived. Raises OSError when it cannot."""
    sys.stdout.flush()
    return code


def _drop_output() -> None:
    # What is still buffered would fail again, with a traceback, when the interpreter ends.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
