"""From a profile's name or file to a checked Profile; every error names the file, the line and the key's path."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from .base import unknown_name
from .document import Document, DocumentError, document_text
from .profile import Profile

DEFAULT_PROFILE: Final = "cpu-smollm2"


class ProfileError(ValueError):
    """A profile cannot be found, read, parsed or accepted; the text says which and what to do."""


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the project, sorted."""
    return sorted(Path(entry.name).stem for entry in _directory().iterdir() if entry.name.endswith(".yaml"))


def load_profile(name_or_path: str = DEFAULT_PROFILE) -> Profile:
    """The shipped profile of that name, or the one in that YAML file.

    A text with a "/" or a YAML suffix is a path, anything else a name. Raises ProfileError.
    """
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return _load_file(Path(name_or_path))
    if name_or_path not in shipped_profiles():
        raise ProfileError(unknown_name("profile", name_or_path, shipped_profiles(), ".yaml"))
    source = f"{name_or_path}.yaml"
    return parse_profile(_directory().joinpath(source).read_text(encoding="utf-8"), source)


def parse_profile(text: str, source: str) -> Profile:
    """Profile in `text`; `source` is the file's name for error texts. Raises ProfileError."""
    try:
        return Document(text, source, "profile").check(Profile)
    except DocumentError as error:
        raise ProfileError(str(error)) from None


def _directory() -> resources.abc.Traversable:
    return resources.files(__package__).joinpath("profiles")


def _load_file(path: Path) -> Profile:
    missing = f"give the path of a YAML file, or one of the shipped names ({', '.join(shipped_profiles())})"
    try:
        text = document_text(path, "profile", missing)
    except DocumentError as error:
        raise ProfileError(str(error)) from None
    return parse_profile(text, str(path))
