"""What every part of a profile has in common: immutable, and unknown keys are refused with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError


class SpecModel(BaseModel):
    """A mapping of the profile. Raises pydantic.ValidationError for unknown keys and wrong types; never coerces."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        unknown = [str(key) for key in data if key not in cls.model_fields]
        if unknown:
            raise _unknown_keys(unknown, cls.model_fields)
        return data


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None when nothing is close."""
    candidates = list(known)
    matches = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown_name(kind: str, name: str, shipped: Sequence[str], suffixes: str) -> str:
    """The error for a name that is none of those shipped: a file of one's own is named by its path."""
    guess = nearest(name, shipped)
    question = f' did you mean "{guess}"?' if guess else ""
    return (
        f'no {kind} "{name}":{question} shipped {kind}s are {", ".join(shipped)}; '
        f"for a file of your own give its path, ending in {suffixes}"
    )


def failure(message: str) -> PydanticCustomError:
    """A validation error whose text is exactly `message`."""
    return PydanticCustomError("profile", "{message}", {"message": message})


def _unknown_keys(unknown: list[str], known: Iterable[str]) -> PydanticCustomError:
    names = list(known)
    sentences = []
    for key in unknown:
        guess = nearest(key, names)
        advice = f'did you mean "{guess}"?' if guess else f"known keys: {', '.join(names)}"
        sentences.append(f'unknown key "{key}": {advice}')
    return failure("; ".join(sentences))


def _relative(path: str) -> str:
    parts = path.split("/")
    if path.startswith(("/", "~")) or ".." in parts or "\\" in path:
        raise failure(
            f'path "{path}" must lie inside the project: write it relative, with "/" and without ".."; '
            "weights that lie elsewhere are linked into models/"
        )
    return path


RelativePath = Annotated[str, Field(min_length=1), AfterValidator(_relative)]
# No more than what messages between processes hold.
PositiveInt = Annotated[int, Field(gt=0, lt=2**63)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
