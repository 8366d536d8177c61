"""The cases of the format suite: what is asked, and what an answer has to look like, be it right or wrong.

All cases are free generation. Held to a grammar every engine would pass; here the weights are on trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tools.client.completion import Completion
from tools.client.request import ChatRequest, GenerateRequest, JsonValue, Message, Request

CASES: Final = Path(__file__).parent / "data" / "format.yaml"

TypeName = Literal["string", "number", "boolean"]
_TYPES: Final[Mapping[TypeName, tuple[type, ...]]] = {"string": (str,), "number": (int, float), "boolean": (bool,)}

# A run of words that follows itself at least so often, and makes up at least so many words, is a loop; a list of like
# lines or an emphatic "very, very, very" is none.
_REPEATS: Final = 4
_LOOP_WORDS: Final = 12
_LONGEST_RUN: Final = 40


class _Case(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str


class JsonCase(_Case):
    """Continues `prompt` with one JSON object that has exactly the `keys`, each of the type named."""

    kind: Literal["json"]
    prompt: str
    keys: dict[str, TypeName]
    max_tokens: int = 64

    def request(self) -> Request:
        return _continued(self.prompt, self.max_tokens, "\n")

    def problem(self, answer: Completion) -> str | None:
        found = _object(answer.text)
        return found if isinstance(found, str) else _shape_problem(found, self.keys)


class ToolCallCase(_Case):
    """Continues `prompt` with `{"name": ..., "arguments": {...}}`: one of the `tools`, with exactly its arguments."""

    kind: Literal["tool_call"]
    prompt: str
    tools: dict[str, dict[str, TypeName]]
    max_tokens: int = 64

    def request(self) -> Request:
        return _continued(self.prompt, self.max_tokens, "\n")

    def problem(self, answer: Completion) -> str | None:
        found = _object(answer.text)
        if isinstance(found, str):
            return found
        if set(found) != {"name", "arguments"} or not isinstance(found["arguments"], dict):
            return f'it is not of the form {{"name": ..., "arguments": {{...}}}}: {_short(answer.text)}'
        name = found["name"]
        if not isinstance(name, str) or name not in self.tools:
            return f"it calls {json.dumps(name)}, which is none of the tools {', '.join(self.tools)}"
        return _shape_problem(found["arguments"], self.tools[name])


class StopCase(_Case):
    """Continues `prompt` until one of the `stop` words comes, and leaves that word out."""

    kind: Literal["stop"]
    prompt: str
    stop: tuple[str, ...]
    max_tokens: int = 64

    def request(self) -> Request:
        return _continued(self.prompt, self.max_tokens, *self.stop)

    def problem(self, answer: Completion) -> str | None:
        if not answer.text.strip():
            return "nothing stands before the stop word"
        kept = next((word for word in self.stop if word in answer.text), None)
        if kept is not None:
            return f"the stop word {json.dumps(kept)} is in the text"
        if answer.finish_reason != "stop":
            return f"no stop word came within {self.max_tokens} tokens: {_short(answer.text)}"
        return None


class RepetitionCase(_Case):
    """Answers a user without falling into a loop."""

    kind: Literal["repetition"]
    question: str
    max_tokens: int = 128

    def request(self) -> Request:
        sampling = {"temperature": 0.0, "max_tokens": self.max_tokens}
        return ChatRequest(messages=[Message("user", self.question)], sampling=sampling, stream=False)

    def problem(self, answer: Completion) -> str | None:
        if not answer.text.strip():
            return "the answer is empty"
        run = loop_in(answer.text)
        return None if run is None else f"it repeats {_short(run)}"


Case = JsonCase | ToolCallCase | StopCase | RepetitionCase
_FILE: Final = TypeAdapter(list[Annotated[Case, Field(discriminator="kind")]])


def cases() -> list[Case]:
    """Every case that the project ships."""
    return _FILE.validate_python(yaml.safe_load(CASES.read_text(encoding="utf-8")))


def loop_in(text: str) -> str | None:
    """The first run of up to 40 words that is repeated back to back often enough to be a loop; None without one."""
    words = text.split()
    for length in range(1, _LONGEST_RUN + 1):
        # Words in a row, each the same as the one `length` words before it.
        same = 0
        for index in range(length, len(words)):
            same = same + 1 if words[index] == words[index - length] else 0
            if same + length >= max(_LOOP_WORDS, _REPEATS * length):
                return " ".join(words[index - length + 1 : index + 1])
    return None


def _continued(prompt: str, max_tokens: int, *stop: str) -> GenerateRequest:
    sampling: dict[str, JsonValue] = {"temperature": 0.0, "max_tokens": max_tokens, "stop": list(stop)}
    return GenerateRequest(prompt=prompt, sampling=sampling, stream=False)


def _object(text: str) -> dict[str, object] | str:
    """The JSON object that `text` is, or what is wrong with it."""
    try:
        found = json.loads(text)
    except ValueError as error:
        return f"it is no JSON ({error}): {_short(text)}"
    return found if isinstance(found, dict) else f"it is JSON, but no object: {_short(text)}"


def _shape_problem(found: Mapping[str, object], wanted: Mapping[str, TypeName]) -> str | None:
    if set(found) != set(wanted):
        return f"its keys are {', '.join(found) or 'none'}, not {', '.join(wanted)}"
    for key, kind in wanted.items():
        # To Python a boolean is a number.
        if not isinstance(found[key], _TYPES[kind]) or (kind == "number" and isinstance(found[key], bool)):
            return f'its "{key}" is {_short(json.dumps(found[key]))}, not a {kind}'
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line if len(line) <= 60 else line[:57] + "..."}"'
