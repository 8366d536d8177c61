"""What a workload's YAML file may say."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from loadtest.options import LoadOptions
from tools.spec.base import PositiveFloat, PositiveInt, SpecModel, failure

from .distribution import Count, Length, LogNormal

Language = Literal["en", "zh"]

# What a model's chat template adds, as a rule: a system prompt of its own, and the marks around each message.
_TEMPLATE_TOKENS = 32
_MESSAGE_TOKENS = 8


class Definition(SpecModel):
    """Requests that are made up, of texts that come with the project.

    Attributes:
        description: one line on what it asks.
        languages: shares of the sessions, in any unit: {en: 7, zh: 3}.
        form: "messages" (the model's chat template is applied) or "prompt" (sent as it is).
        input_tokens: length of each question, without the chat template and without the system message.
        output_tokens: `max_tokens` of each request.
        exact: answers have exactly `output_tokens`, so that every target has the same work.
        system_tokens: length of a system message that all sessions share; None for no system message.
        turns: requests of a session, each with the model's own answers to the ones before.
        think_s: seconds between an answer and the next turn.
        sampling: sampling parameters, in the engine's names.
    """

    description: Annotated[str, Field(min_length=1)]
    languages: Annotated[dict[Language, PositiveFloat], Field(min_length=1)]
    form: Literal["messages", "prompt"] = "messages"
    input_tokens: Length
    output_tokens: Length
    exact: bool = False
    system_tokens: PositiveInt | None = None
    turns: Count = Field(default={"min": 1, "max": 1}, validate_default=True)
    think_s: LogNormal | None = None
    sampling: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _conversations_are_messages(self) -> Definition:
        if self.form == "prompt" and (self.system_tokens is not None or self.turns.max > 1):
            raise failure('a system message and several turns need "form: messages"')
        if self.think_s is not None and self.turns.max == 1:
            raise failure("think_s is the time between turns: give turns too, or leave it out")
        return self

    @model_validator(mode="after")
    def _max_tokens_has_its_key(self) -> Definition:
        if "max_tokens" in self.sampling:
            raise failure('the length of the answer is "output_tokens", not a sampling parameter')
        return self

    def overridden(self, options: LoadOptions) -> Definition:
        """With the lengths and the sampling parameters that the user asked for."""
        changes: dict[str, object] = {"sampling": {**self.sampling, **options.sampling}}
        if options.input_tokens is not None:
            changes["input_tokens"] = LogNormal.fixed(options.input_tokens)
        if options.output_tokens is not None:
            changes["output_tokens"] = LogNormal.fixed(options.output_tokens)
        return self.model_copy(update=changes)

    @property
    def most_prompt_tokens(self) -> int:
        """Of the longest session's last request, with an allowance for the chat template."""
        turns = self.turns.max
        said = turns * self.input_tokens.most_tokens + (turns - 1) * self.output_tokens.most_tokens
        if self.form == "prompt":
            return said
        return said + (self.system_tokens or 0) + _TEMPLATE_TOKENS + (2 * turns) * _MESSAGE_TOKENS


class Mixture(SpecModel):
    """Sessions of several workloads.

    Attributes:
        description: one line on what it asks.
        mix: shares of the sessions by workload, in any unit; a name, or the path of a YAML file seen from this one.
    """

    description: Annotated[str, Field(min_length=1)]
    mix: Annotated[dict[str, PositiveFloat], Field(min_length=1)]
