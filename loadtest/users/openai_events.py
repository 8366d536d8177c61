"""From the server-sent events of an OpenAI completion to chunks with the server's token counts. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.client.completion import Chunk
from tools.client.errors import (
    MalformedResponseError,
    ServerFaultError,
    StreamTruncatedError,
    deadline_passed,
    from_http_status,
)
from tools.client.request import Target
from tools.client.sse import SSEParser

_DONE: Final = "[DONE]"


class _FromServer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Usage(_FromServer):
    """Tokens so far, not since the last event."""

    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    completion_tokens: Annotated[int, Field(ge=0)] = 0


class _Delta(_FromServer):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(_FromServer):
    """`delta` of a chat completion, `text` of a completion."""

    index: Annotated[int, Field(ge=0, lt=128)] = 0
    delta: _Delta = _Delta()
    text: str | None = None
    finish_reason: str | None = None

    @property
    def new_text(self) -> str:
        """What a reasoning model thinks is output as well: it is counted, and the user waits for it."""
        delta = self.delta
        return self.text or delta.content or delta.reasoning or delta.reasoning_content or ""


class _Event(_FromServer):
    model: str = ""
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None


class CompletionEvents:
    """Reads the body of one answer as it arrives.

    A server that counts with every event gives each chunk its own tokens. One that counts only at the end gives them
    all to the last chunk that carried text, so that the count moves no clock; until then chunks count as carrying
    tokens if they carry text.
    """

    def __init__(self, target: Target, *, gives_up_at: float, deadline_s: float) -> None:
        self._target = target
        self._gives_up_at = gives_up_at
        self._deadline_s = deadline_s
        self._parser = SSEParser()
        self._counted: dict[int, int] = {}
        self._held: Chunk | None = None
        self._done = False

    def feed(self, received: bytes, received_at: float) -> Iterator[Chunk]:
        """The chunks that are complete with these bytes.

        Raises:
            ServerFaultError: an event is an error.
            MalformedResponseError: not UTF-8, no JSON, or no completion.
            DeadlineExceededError: the deadline passed before these bytes arrived.
        """
        if received_at > self._gives_up_at:
            raise deadline_passed(self._deadline_s, self._target)
        try:
            events = self._parser.feed(received)
        except UnicodeDecodeError as error:
            raise MalformedResponseError(f"the stream is not UTF-8: {error}", self._target) from error
        for event in events:
            if event == _DONE:
                self._done = True
            else:
                yield from self._chunks(self._read(event), received_at)

    def finish(self) -> Iterator[Chunk]:
        """What was held back.

        Raises:
            StreamTruncatedError: the stream ended without its [DONE].
        """
        if not self._done:
            raise StreamTruncatedError(f"no {_DONE} came", self._target)
        if self._held is not None:
            yield self._held

    def _chunks(self, event: _Event, received_at: float) -> Iterator[Chunk]:
        tokens = self._new_tokens(event)
        if not event.choices:
            yield from self._count_held(event, tokens)
            return
        # A sequence has events of its own; those before it say nothing in them.
        choice = event.choices[0]
        chunk = Chunk(
            texts=(*[""] * choice.index, choice.new_text),
            num_output_tokens=tokens,
            finish_reasons=(*[None] * choice.index, choice.finish_reason),
            num_input_tokens=event.usage.prompt_tokens if event.usage is not None else None,
            received_at=received_at,
            served_by=Target(event.model) if event.model else None,
        )
        if tokens is None and not any(chunk.texts):
            # The role before the answer, or the finish reason behind it.
            yield chunk
            return
        if self._held is not None:
            yield self._held
        self._held = chunk

    def _new_tokens(self, event: _Event) -> int | None:
        """Those since the last count: of the event's own sequence, or of all when it belongs to none."""
        if event.usage is None:
            return None
        if event.choices:
            index = event.choices[0].index
            before = self._counted.get(index, 0)
            self._counted[index] = event.usage.completion_tokens
        else:
            before = sum(self._counted.values())
        if event.usage.completion_tokens < before:
            raise MalformedResponseError("its count of output tokens went down", self._target)
        return event.usage.completion_tokens - before

    def _count_held(self, event: _Event, tokens: int | None) -> Iterator[Chunk]:
        """An event with nothing but the usage: its tokens belong to the text that came last."""
        if self._held is None or event.usage is None:
            return
        counted = None if tokens is None else tokens + (self._held.num_output_tokens or 0)
        yield replace(self._held, num_output_tokens=counted, num_input_tokens=event.usage.prompt_tokens)
        self._held = None

    def _read(self, text: str) -> _Event:
        try:
            body: Any = json.loads(text)
        except ValueError as error:
            raise MalformedResponseError(f"the event {_shortened(text)} is not JSON: {error}", self._target) from error
        if isinstance(body, dict) and body.get("error"):
            raise self._error(body["error"])
        try:
            return _Event.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise MalformedResponseError(
                f"the event {_shortened(text)} is no completion: {where}: {first['msg']}", self._target
            ) from error

    def _error(self, said: Any) -> Exception:
        if not isinstance(said, dict):
            return ServerFaultError("UNKNOWN", str(said), self._target)
        message, status = str(said.get("message", said)), said.get("code")
        if isinstance(status, int) and 400 <= status < 600:
            return from_http_status(status, message, self._target)
        return ServerFaultError("UNKNOWN", message, self._target)


def _shortened(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else f"{text[:limit]}...")
