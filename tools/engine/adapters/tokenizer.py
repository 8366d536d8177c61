"""The engine behind `chat_tokenizer`: conversations in, prompts and their tokens out. It generates nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tools.wire.launch import EngineLaunch
from tools.wire.messages import Failure, Request, Tokenize, Tokenized

from ..accounting import Accounting
from ..chat.conversation import check_encodable, parse_messages
from ..chat.encoding import ChatEncoder, Encoded
from ..errors import LaunchError, RequestError, invalid
from ..limits import Limits
from ..model_json import read_arguments
from ..prompt_tokens import check_tokens
from ..tokenizer_loading import load_tokenizer
from .base import Emit, EngineInfo, Work

log = logging.getLogger(__name__)

# The longest spelling of one byte in JSON is \\u0061.
_JSON_BYTES_PER_BYTE = 6


class TokenizerArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """model.json of a tokenizer. `model`: folder with the tokenizer; `max_model_len`: the engines' context in tokens;
    `chat_template`: file whose template replaces the tokenizer's own.
    """

    model: str
    max_model_len: int
    chat_template: str | None = None


class TokenizerAdapter:
    """Renders and encodes in the event loop: a conversation takes well under a millisecond, a long one a few."""

    def __init__(self, launch: EngineLaunch) -> None:
        owner = f'"{launch.model}" version {launch.version}'
        self._model = launch.model
        self._arguments = read_arguments(launch.arguments, TokenizerArguments, owner)
        self._max_bytes = Limits.from_parameters(launch.parameters).max_prompt_bytes
        self._accounting = Accounting()
        self._encoder: ChatEncoder | None = None

    async def start(self, accounting: Accounting) -> EngineInfo:
        self._accounting = accounting
        tokenizer = load_tokenizer(self._arguments.model)
        if self._arguments.chat_template is not None:
            tokenizer.chat_template = _read_template(self._arguments.chat_template)
        self._encoder = ChatEncoder(tokenizer, self._arguments.model)
        return EngineInfo("tokenizer", self._arguments.max_model_len, 1, self._encoder.description)

    def tokenize(self, message: Tokenize) -> Tokenized:
        try:
            encoded = self._encode(message)
        except RequestError as error:
            self._accounting.count("ladder_requests_rejected_total", label="invalid")
            return Tokenized(message.key, "", [], error.as_failure())
        except Exception as error:  # a template or tokenizer that breaks on one prompt must not end the engine
            log.exception("a prompt could not be tokenized")
            failure = Failure("INTERNAL", f'"{self._arguments.model}": {type(error).__name__}: {error}')
            return Tokenized(message.key, "", [], failure)
        return Tokenized(message.key, encoded.prompt, encoded.token_ids)

    def _encode(self, message: Tokenize) -> Encoded:
        assert self._encoder is not None
        if message.messages is not None and message.text is not None:
            raise invalid('both "messages" and "text_input" were sent: send one of them')
        if message.messages is not None:
            self._check_json_size(message.messages)
            source, text = "messages", self._encoder.render(parse_messages(message.messages))
            self._check_size('the prompt made of "messages"', text)
        elif message.text is not None:
            source, text = "text_input", message.text
            check_encodable(text, '"text_input"')
            self._check_size('"text_input"', text)
        else:
            raise invalid('neither "messages" nor "text_input" was sent: send one of them')
        encoded = self._encoder.encode(text)
        if not encoded.prompt:
            raise invalid(f'"{source}" is empty: there is nothing to answer')
        check_tokens(encoded.token_ids, source, self._arguments.max_model_len, None)
        return encoded

    def _check_size(self, owner: str, text: str) -> None:
        size = len(text.encode())
        if self._max_bytes and size > self._max_bytes:
            raise invalid(f"{owner} has {size} bytes: MAX_PROMPT_BYTES allows at most {self._max_bytes}")

    def _check_json_size(self, text: str) -> None:
        """Turn away what cannot become a prompt of the allowed size before it is parsed."""
        size, most = len(text.encode()), self._max_bytes * _JSON_BYTES_PER_BYTE
        if most and size > most:
            raise invalid(
                f'"messages" has {size} bytes of JSON: MAX_PROMPT_BYTES allows prompts of at most {self._max_bytes}, '
                f"whose JSON has at most {most}"
            )

    def prepare(self, request: Request) -> tuple[Any, int]:
        raise RequestError(
            "UNSUPPORTED", f'"{self._model}" renders and encodes chats, it does not generate: use "llm_bf16"'
        )

    async def generate(self, group: Sequence[Work], emit: Emit) -> None:
        """Never called: `prepare` refuses every request."""
        raise RequestError("UNSUPPORTED", f'"{self._model}" does not generate')

    async def check_health(self) -> None:
        """A tokenizer is healthy as long as its process lives."""

    def refresh_gauges(self, waiting: int, running: int) -> None:
        """It answers at once: nothing waits and nothing runs."""

    async def stop(self) -> None:
        self._encoder = None


def _read_template(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise LaunchError(f'the chat template "{path}" named in model.json cannot be read: {error}') from error
