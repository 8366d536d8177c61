"""model.json of the engines whose arguments are ours: every key checked, the nearest one suggested."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from .errors import LaunchError

T = TypeVar("T", bound=msgspec.Struct)


def read_arguments(arguments: Mapping[str, Any], kind: type[T], owner: str) -> T:
    """`arguments` as a `kind`; `owner` names the model version in error texts.

    Raises LaunchError naming the key, the value and what is allowed.
    """
    fields = kind.__struct_fields__
    for name in arguments:
        if name not in fields:
            nearest = difflib.get_close_matches(name, fields, n=1)
            hint = f'did you mean "{nearest[0]}"?' if nearest else f"known ones are {', '.join(sorted(fields))}"
            raise LaunchError(f'model.json of {owner}: key "{name}" is unknown: {hint}')
    for name, hint in typing.get_type_hints(kind).items():
        if typing.get_origin(hint) is typing.Literal and name in arguments and arguments[name] not in hint.__args__:
            allowed = " or ".join(f'"{choice}"' for choice in hint.__args__)
            raise LaunchError(
                f'model.json of {owner}: "{name}" is {msgspec.json.encode(arguments[name]).decode()}: write {allowed}'
            )
    try:
        return msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        raise LaunchError(f"model.json of {owner}: {error}") from error
