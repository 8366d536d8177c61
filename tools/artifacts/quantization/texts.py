"""Texts for calibration and measurement: read from a file or a folder, checked once, kept as JSON lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tools.artifacts.errors import ArtifactError

_FOLDER: Final = Path(__file__).resolve().parents[1] / "calibration"
DEFAULT_CALIBRATION: Final = _FOLDER / "calibration.jsonl"
HELDOUT: Final = _FOLDER / "heldout.jsonl"

_PLAIN: Final = (".txt", ".md")
_LINES: Final = ".jsonl"


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Literal["system", "user", "assistant"]
    content: str


class Text(BaseModel):
    """Plain text, or a conversation that the model's chat template is applied to. Exactly one of them."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str | None = None
    messages: tuple[Message, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> Text:
        if (self.text is None) == (self.messages is None):
            raise ValueError('needs either "text" or "messages"')
        return self

    @property
    def is_blank(self) -> bool:
        contents = [self.text or ""] if self.messages is None else [message.content for message in self.messages]
        return not any(content.strip() for content in contents)


def read_texts(path: Path) -> list[Text]:
    """The texts of a file (.txt, .md: one; .jsonl: one a line), or of every such file below a folder, by name.

    Raises ArtifactError for a path that is not there, or holds no text, or a line that is none.
    """
    if not path.exists():
        raise ArtifactError(f'"{path}" does not exist: name a file or folder of texts')
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    known = [file for file in files if file.suffix in (*_PLAIN, _LINES)]
    texts = [text for file in known for text in _read_file(file) if not text.is_blank]
    if not texts:
        endings = ", ".join((*_PLAIN, _LINES))
        raise ArtifactError(f'"{path}" holds no text: name a file, or a folder with files, ending in {endings}')
    return texts


def to_lines(texts: Iterable[Text]) -> str:
    """JSON lines that `read_texts` reads back."""
    return "".join(text.model_dump_json(exclude_none=True) + "\n" for text in texts)


def sha256_of_texts(texts: Sequence[Text]) -> str:
    return hashlib.sha256(to_lines(texts).encode()).hexdigest()


def _read_file(file: Path) -> Iterator[Text]:
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f'"{file}" is no UTF-8 text ({error.reason} at byte {error.start}): convert it') from error
    if file.suffix in _PLAIN:
        yield Text(text=content)
        return
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield Text.model_validate_json(line)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ArtifactError(
                f'"{file}" line {number}: {reason}: write {{"text": "..."}} or '
                '{"messages": [{"role": "user", "content": "..."}, ...]}'
            ) from error
