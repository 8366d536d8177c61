"""Environment variables that a profile gives to engine processes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from .base import failure

# Set by the process that starts an engine; a profile that set them too would break the way down.
_RESERVED_PREFIX = "LADDER_"


def _not_reserved(name: str) -> str:
    if name.startswith(_RESERVED_PREFIX):
        raise failure(f'environment variable "{name}": names that start with "LADDER_" are set by ./ladder itself')
    return name


def _values_are_text(data: Any) -> Any:
    if isinstance(data, dict):
        for name, value in data.items():
            if not isinstance(value, str):
                raise failure(f'environment variable "{name}" is {value!r}: put quotes round it, values are text')
    return data


EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), AfterValidator(_not_reserved)]
Environment = Annotated[dict[EnvironmentName, str], BeforeValidator(_values_are_text)]
