"""The verdict of `./ladder eval`, kept beside the weights it is about, so that `up` can refuse those that failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.artifacts.manifest import MANIFEST, sha256_of

QUALITY: Final = "ladder-quality.json"


class RungQuality(BaseModel):
    """What was found of an artifact through one rung. `failures` is empty for a rung inside all its thresholds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str
    measured_at: str
    failures: tuple[str, ...]


class ArtifactQuality(BaseModel):
    """The verdicts on one artifact, by the rung (model:version) that served it, and what the artifact was then.

    `manifest_sha256` is None for weights without a manifest; `size` is that of all its files, in bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    manifest_sha256: str | None
    size: int
    rungs: dict[str, RungQuality]

    @classmethod
    def empty(cls, folder: Path) -> Self:
        """No verdict yet on the artifact as it is now."""
        manifest = folder / MANIFEST
        return cls(
            manifest_sha256=sha256_of(manifest) if manifest.is_file() else None,
            size=sum(file.stat().st_size for file in _files(folder)),
            rungs={},
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The verdicts on the artifact as it is now; those on an earlier state of it are left out.

        Raises ValidationError for a file that is no such record.
        """
        now = cls.empty(folder)
        try:
            written = cls.model_validate_json((folder / QUALITY).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return now
        same = (written.manifest_sha256, written.size) == (now.manifest_sha256, now.size)
        return written if same else now


def failed_reasons(folder: Path) -> tuple[str, ...]:
    """Why the artifact in `folder` is not good enough, a sentence each; empty when it passed or was never judged.

    A verdict on an artifact that has changed since counts as none. A verdict that cannot be read is a reason too: what
    it said is not known.
    """
    if not (folder / QUALITY).exists():
        return ()
    try:
        rungs = ArtifactQuality.read(folder).rungs
    except ValidationError:
        return (f'"{folder / QUALITY}" is no verdict of `./ladder eval`: delete it, or evaluate the artifact again',)
    return tuple(f"{rung}: {failure}" for rung, found in rungs.items() for failure in found.failures)


def record(folder: Path, rung: str, found: RungQuality) -> Path:
    """Keep the verdict of one rung, in place of its last; returns the file. It appears whole or not at all."""
    try:
        before = ArtifactQuality.read(folder)
    except ValidationError:
        before = ArtifactQuality.empty(folder)
    after = before.model_copy(update={"rungs": {**before.rungs, rung: found}})
    file = folder / QUALITY
    draft = folder / f".{QUALITY}.{os.getpid()}"
    try:
        draft.write_text(after.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file


def _files(folder: Path) -> Iterator[Path]:
    """The artifact's own files: neither this record nor what is being written."""
    for file in folder.iterdir():
        if file.is_file() and file.name != QUALITY and not file.name.startswith("."):
            yield file
