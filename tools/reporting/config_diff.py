"""What one rung's rendered configuration changes in that of the rung below."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from tools.client.request import Target
from tools.rendering.plan import MODEL_REPOSITORY


def config_of(target: Target, files: Mapping[PurePosixPath, str]) -> dict[str, str]:
    """The files that make a rung: its config.pbtxt without comments and blank lines, and its version's model.json.

    `files` are those that the profile renders to.
    """
    folder = MODEL_REPOSITORY / target.model
    return {
        "config.pbtxt": _without_comments(files[folder / "config.pbtxt"]),
        "model.json": files[folder / str(target.version) / "model.json"],
    }


def config_diff(below: Target, above: Target, files: Mapping[PurePosixPath, str]) -> str:
    """Unified diff of the two configurations without context: only what differs. Empty when nothing does."""
    before, after = config_of(below, files), config_of(above, files)
    return "".join(
        _diff(before[name], after[name], _path(below, name), _path(above, name))
        for name in ("config.pbtxt", "model.json")
    )


def _path(target: Target, name: str) -> str:
    return f"{target.model}/{name}" if name == "config.pbtxt" else f"{target.model}/{target.version}/{name}"


def _diff(before: str, after: str, from_file: str, to_file: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), from_file, to_file, n=0, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _without_comments(text: str) -> str:
    return "\n".join(_kept(text.splitlines()))


def _kept(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
