"""Which artifacts can be made here, and what to do about those that cannot."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.artifacts import smollm2
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Manifest
from tools.bootstrap.locking import exclusive

Maker = Callable[[Path, Callable[[str], None]], None]

# By the name of the artifact's folder.
MAKERS: Final[Mapping[str, Maker]] = {smollm2.NAME: smollm2.make}


def is_complete(folder: Path) -> bool:
    """True for an artifact that was made here and is whole, and for a checkpoint that somebody placed there."""
    manifest = Manifest.read(folder)
    if manifest is not None:
        return not manifest.missing_from(folder)
    weights = any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))
    return weights and (folder / "config.json").is_file()


def check_undamaged(folder: Path) -> None:
    """Raises ArtifactError for a folder that is there and is no complete artifact, naming what is wrong with it."""
    if not folder.exists() or is_complete(folder):
        return
    manifest = Manifest.read(folder)
    missing = manifest.missing_from(folder) if manifest else ["config.json or weights"]
    raise ArtifactError(
        f'"{folder}" is damaged ({", ".join(missing)} missing or cut short): delete it and run the command again'
    )


def check_head(folder: Path) -> None:
    """Raises ArtifactError for a draft head that is missing or damaged: it takes a training run to make one."""
    if is_complete(folder):
        return
    fix = f'restore it (git restore "{folder}"), or train a head: ./ladder draft train --out "{folder}"'
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ArtifactError(f'there is no draft head at "{folder}" (config.json, model.safetensors): {fix}')
    damaged = folder / manifest.missing_from(folder)[0]
    raise ArtifactError(f'draft head "{folder.name}" is damaged, "{damaged}" is missing or cut short: {fix}')


def check_obtainable(folder: Path, display_name: str) -> None:
    """Raises ArtifactError for an artifact that is neither there nor can be made."""
    if is_complete(folder) or folder.name in MAKERS:
        return
    raise ArtifactError(
        f'"{display_name}" is not at "{folder}", and cannot be made here: place its Hugging Face checkpoint there '
        "(config.json, *.safetensors, tokenizer files), for example with "
        f'huggingface-cli download REPOSITORY --local-dir "{folder}"'
    )


def make(folder: Path, report: Callable[[str], None]) -> None:
    """Makes the artifact unless it is complete. The folder appears whole or not at all. Raises ArtifactError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(f".{folder.name}.lock")
    with exclusive(lock, lambda holder: report(f"another process ({holder}) is making it, waiting")):
        if is_complete(folder):
            return
        check_undamaged(folder)
        for leftover in folder.parent.glob(f".{folder.name}.partial*"):
            shutil.rmtree(leftover)
        draft = folder.with_name(f".{folder.name}.partial")
        draft.mkdir()
        try:
            MAKERS[folder.name](draft, report)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def main(folder: str) -> int:
    """The process that makes one artifact: progress on standard output, the reason of a failure on standard error."""
    try:
        make(Path(folder), lambda phase: print(phase, flush=True))
    except ArtifactError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
