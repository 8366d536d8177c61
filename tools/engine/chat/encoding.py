"""One BOS, wherever it comes from: the tokenizer, the chat template, or the client's own text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jinja2

from ..errors import RequestError, invalid
from .conversation import Message


@dataclass(frozen=True)
class Encoded:
    """A prompt and its tokens: encoding `prompt` the way engines do gives exactly `token_ids`."""

    prompt: str
    token_ids: list[int]


class ChatEncoder:
    """Renders conversations and encodes prompts with one model's tokenizer; `model` names it in error texts."""

    def __init__(self, tokenizer: Any, model: str) -> None:
        self._tokenizer = tokenizer
        self._model = model
        # The text that the tokenizer puts in front by itself; empty when it adds none.
        self._own_bos = _bos_added_by(tokenizer)

    @property
    def description(self) -> str:
        bos = f"adds its BOS {self._own_bos}" if self._own_bos else "adds no BOS"
        template = "a chat template" if self._tokenizer.chat_template else "no chat template"
        return f"{type(self._tokenizer).__name__} with {len(self._tokenizer)} tokens, {template}, {bos}"

    def render(self, conversation: list[Message]) -> str:
        """The conversation as the model's chat template writes it, ready for the assistant's turn.

        Raises RequestError: INVALID_ARG when the template refuses the conversation, UNSUPPORTED without a template.
        """
        if not self._tokenizer.chat_template:
            raise RequestError(
                "UNSUPPORTED",
                f'"messages" needs a chat template and the tokenizer in "{self._model}" has none: '
                'name a file with "chat_template" in model.json, or send a finished prompt as "text_input"',
            )
        try:
            rendered = self._tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        except jinja2.TemplateError as error:
            raise invalid(f'the chat template of "{self._model}" refuses "messages": {error}') from error
        return str(rendered)

    def encode(self, text: str) -> Encoded:
        """`text` with its tokens. A BOS that the tokenizer would add a second time is taken off the text, because an
        engine that sees only the text lets the tokenizer add it again.
        """
        prompt = text
        while self._own_bos and prompt.startswith(self._own_bos):
            prompt = prompt[len(self._own_bos) :]
        return Encoded(prompt, self._tokenizer.encode(prompt))


def _bos_added_by(tokenizer: Any) -> str:
    if tokenizer.bos_token is None:
        return ""
    first = tokenizer.encode("a")[0]
    return str(tokenizer.bos_token) if first == tokenizer.bos_token_id else ""
