"""`messages`: from JSON text to a conversation that a chat template can render. Pure."""

from __future__ import annotations

import difflib
import json
from typing import Any, Final, TypedDict

from ..errors import invalid

ROLES: Final = ("system", "user", "assistant")
_KEYS: Final = ("role", "content")
_EXAMPLE: Final = '[{"role": "user", "content": "Hello"}]'
_CONTENT_TAKES: Final = 'a string or a list of {"type": "text", "text": ...} parts'


class Message(TypedDict):
    """One turn; `content` is not empty."""

    role: str
    content: str


def parse_messages(text: str) -> list[Message]:
    """The conversation in the JSON list `text`.

    Raises RequestError (INVALID_ARG) naming the message by its index from 0, its role, the value and what is allowed.
    """
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid(f'"messages" is not valid JSON ({error}): {_shown(text)}') from error
    if not isinstance(parsed, list):
        raise invalid(f'"messages" must be a JSON list such as {_EXAMPLE}, got {_shown(parsed)}')
    if not parsed:
        raise invalid(f'"messages" is an empty list: it takes at least one message, such as {_EXAMPLE}')
    return [_message(index, item) for index, item in enumerate(parsed)]


def check_encodable(text: str, owner: str) -> None:
    """JSON can spell half a surrogate pair, which is no character. Raises RequestError (INVALID_ARG)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise invalid(
            f"{owner} holds half a surrogate pair (\\u{ord(text[error.start]):04x} at character {error.start}): "
            "it is no character, send both halves"
        ) from error


def _message(index: int, item: object) -> Message:
    if not isinstance(item, dict):
        raise invalid(f"message {index} is {_shown(item)}: it must be an object such as {_EXAMPLE[1:-1]}")
    for key in item:
        if key not in _KEYS:
            nearest = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f'did you mean "{nearest[0]}"?' if nearest else 'it takes "role" and "content"'
            raise invalid(f"message {index} has the unknown key {_shown(key)}: {hint}")
    role = _role(index, item)
    content = _content(f'message {index} ("{role}")', item)
    return Message(role=role, content=content)


def _role(index: int, item: dict[str, Any]) -> str:
    allowed = ", ".join(f'"{role}"' for role in ROLES)
    if "role" not in item:
        raise invalid(f'message {index} has no "role": it takes one of {allowed}')
    role = item["role"]
    if role not in ROLES:
        raise invalid(f"message {index} has the role {_shown(role)}: it takes one of {allowed}")
    if role == "system" and index > 0:
        raise invalid(f'message {index} has the role "system": only message 0 may have it')
    return str(role)


def _content(owner: str, item: dict[str, Any]) -> str:
    if "content" not in item:
        raise invalid(f'{owner} has no "content": it takes {_CONTENT_TAKES}')
    content = item["content"]
    if isinstance(content, list):
        # Joined as vLLM joins them for templates that take plain text.
        content = "\n".join(_part(owner, number, part) for number, part in enumerate(content))
    if not isinstance(content, str):
        raise invalid(f'{owner}: "content" is {_shown(content)}: it takes {_CONTENT_TAKES}')
    if not content:
        raise invalid(f'{owner}: "content" is empty: leave the message out or write something')
    check_encodable(content, f'{owner}: "content"')
    return content


def _part(owner: str, number: int, part: object) -> str:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise invalid(f'{owner}: content part {number} is {_shown(part)}: it takes {{"type": "text", "text": ...}}')
    if part["type"] != "text":
        raise invalid(f'{owner}: content part {number} has the type {_shown(part["type"])}: only "text" is taken')
    text = part.get("text")
    if not isinstance(text, str):
        raise invalid(f'{owner}: content part {number} needs a string "text", got {_shown(text)}')
    return text


def _shown(value: object) -> str:
    # ASCII, so that half a surrogate pair in a refused value cannot break the error text itself.
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
