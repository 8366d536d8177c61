"""Rendered files on the disk: writing what changed, and comparing what is there with what should be."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.spec.profile import Profile

from .plan import REPOSITORIES, rendered_files


class RenderError(RuntimeError):
    """The rendered files cannot be written where they should go; the text says what stands in the way."""


@dataclass(frozen=True, slots=True)
class RenderReport:
    """What a rendering did. Paths are relative to the root; `stray` ones were found and left alone."""

    written: tuple[PurePosixPath, ...]
    unchanged: tuple[PurePosixPath, ...]
    stray: tuple[PurePosixPath, ...]


def render(profile: Profile, out_dir: Path) -> RenderReport:
    """Write the profile's files under `out_dir`.

    Each file appears whole or not at all. A file whose text is the same is not touched: tritonserver reloads every
    version whose folder looks changed. Raises RenderError.
    """
    files = rendered_files(profile)
    written = write_changed(files, out_dir)
    unchanged = tuple(path for path in files if path not in written)
    return RenderReport(written, unchanged, tuple(_strays(out_dir, files)))


def write_changed(files: Mapping[PurePosixPath, str], out_dir: Path) -> tuple[PurePosixPath, ...]:
    """Write those of `files` that are others on the disk, each whole; returns them. Raises RenderError."""
    changed = tuple(path for path, text in files.items() if _current_text(out_dir / path) != text)
    for path in changed:
        _write_whole(out_dir / path, files[path])
    return changed


def check(profile: Profile, root: Path) -> list[str]:
    """Unified diffs, one a file, from what lies under `root` to what the profile renders to; empty when it is fresh.

    What lies in the rendered repositories and is not the profile's makes them stale as well.
    """
    files = rendered_files(profile)
    return [
        *differences(files, root),
        *(
            f"Only on disk: {path}: the profile does not render it; delete it, or keep it in a repository of its own\n"
            for path in _strays(root, files)
        ),
    ]


def differences(files: Mapping[PurePosixPath, str], root: Path) -> list[str]:
    """Unified diffs, one a file, from what lies under `root` to `files`; empty when nothing differs."""
    found = [(path, _current_text(root / path), text) for path, text in files.items()]
    return [_diff(path, current, text) for path, current, text in found if current != text]


def remove(paths: tuple[PurePosixPath, ...], out_dir: Path) -> None:
    """Delete these files and empty folders under `out_dir`, and the folders that are empty then."""
    for path in paths:
        stray = out_dir / path
        if stray.is_dir() and not stray.is_symlink():
            stray.rmdir()
        else:
            stray.unlink()
        for folder in path.parents:
            if folder in (*REPOSITORIES, PurePosixPath()) or any((out_dir / folder).iterdir()):
                break
            (out_dir / folder).rmdir()


def _current_text(file: Path) -> str | None:
    """Text of the file; None when there is no such file, or when it is not text."""
    try:
        # Opening a pipe would wait for whoever writes into it.
        return file.read_bytes().decode("utf-8") if file.is_file() else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UnicodeDecodeError):
        return None


def _strays(root: Path, files: Mapping[PurePosixPath, str]) -> list[PurePosixPath]:
    """What lies under the rendered repositories and is not among `files`, sorted.

    Empty folders count: tritonserver takes one for a model or a version, and fails to load it.
    """
    found = (
        PurePosixPath(path.relative_to(root).as_posix())
        for repository in REPOSITORIES
        for path in (root / repository).rglob("*")
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    )
    return sorted(path for path in found if path not in files)


def _write_whole(destination: Path, text: str) -> None:
    if destination.is_dir():
        raise RenderError(f'"{destination}" is a folder where a file has to go: remove it and render again')
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{destination.name}.", dir=destination.parent)
    except OSError as error:
        raise RenderError(f'cannot write "{destination}": {error.strerror or error}') from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(destination)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise RenderError(f'cannot write "{destination}": {error.strerror or error}') from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _diff(path: PurePosixPath, current: str | None, expected: str) -> str:
    lines = difflib.unified_diff(
        (current or "").splitlines(keepends=True),
        expected.splitlines(keepends=True),
        fromfile=f"{path} (on disk)" if current is not None else f"{path} (missing)",
        tofile=f"{path} (rendered)",
    )
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
