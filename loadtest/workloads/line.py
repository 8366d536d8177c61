"""One line of a file of requests, in any of three forms."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from tools.client.request import Message
from tools.spec.base import PositiveInt, SpecModel, failure

Text = Annotated[str, Field(min_length=1)]

_ASKS: Final = ("human", "user")


class ChatMessage(SpecModel):
    """A message as the OpenAI API writes it."""

    role: Literal["system", "user", "assistant"]
    content: Text


class ShareGptMessage(BaseModel):
    """A message as ShareGPT's exports write it, which give it keys of their own besides."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    speaker: Annotated[
        Literal["human", "user", "gpt", "assistant", "chatgpt", "bing", "bard", "system"], Field(alias="from")
    ]
    value: str


class Line(SpecModel):
    """Exactly one of `messages`, `prompt` and `conversations`.

    Attributes:
        messages: a conversation up to a question; one request.
        prompt: sent as it is; one request.
        conversations: ShareGPT's form; its questions are asked one after the other, and the model's own answers take
            the place of the recorded ones.
        max_tokens: most output tokens of each request.
        sampling: sampling parameters, in the engine's names.
        id: of no use here; exports have it.
    """

    messages: Annotated[list[ChatMessage], Field(min_length=1)] | None = None
    prompt: Text | None = None
    conversations: Annotated[list[ShareGptMessage], Field(min_length=1)] | None = None
    max_tokens: PositiveInt | None = None
    sampling: dict[str, JsonValue] = Field(default_factory=dict)
    id: Any = None

    @model_validator(mode="after")
    def _exactly_one_form(self) -> Line:
        given = [form for form in ("messages", "prompt", "conversations") if getattr(self, form) is not None]
        if len(given) != 1:
            found = f"this line has {' and '.join(given)}" if given else "this line has none of them"
            raise failure(f"a line has messages, prompt or conversations: {found}")
        return self

    @field_validator("messages")
    @classmethod
    def _ends_with_a_question(cls, messages: list[ChatMessage] | None) -> list[ChatMessage] | None:
        if messages and messages[-1].role != "user":
            raise failure(
                f"the last message is the {messages[-1].role}'s: the last one must be the user's, to be answered"
            )
        return messages

    @field_validator("conversations")
    @classmethod
    def _asks_something(cls, said: list[ShareGptMessage] | None) -> list[ShareGptMessage] | None:
        if said and not any(each.speaker in _ASKS for each in said):
            raise failure('no message is "from": "human", so nothing is asked')
        if said and any(each.speaker in _ASKS and not each.value for each in said):
            raise failure('a message "from": "human" is empty')
        return said

    @field_validator("sampling")
    @classmethod
    def _max_tokens_has_its_key(cls, sampling: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "max_tokens" in sampling:
            raise failure('"max_tokens" is a key of the line, beside "sampling"')
        return sampling

    def turns(self) -> list[tuple[Message, ...]]:
        """What is said before each answer of the model; empty for a prompt."""
        if self.messages is not None:
            return [tuple(Message(each.role, each.content) for each in self.messages)]
        turns: list[tuple[Message, ...]] = []
        system: tuple[Message, ...] = ()
        for each in self.conversations or ():
            if each.speaker == "system" and not turns:
                system = (*system, Message("system", each.value))
            elif each.speaker in _ASKS:
                turns.append((*system, Message("user", each.value)))
                system = ()
        return turns

    def asked(self) -> str:
        """All that the line says, for counting."""
        return self.prompt or "\n".join(message.content for turn in self.turns() for message in turn)
