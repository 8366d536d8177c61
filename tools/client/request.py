"""What a caller asks for: a target, and a prompt or a conversation. Nothing here knows a protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Target:
    """A model on the server; without a version the server picks its highest ready one at each request."""

    model: str
    version: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `MODEL` or `MODEL:VERSION`.

        Raises:
            ValueError: an empty or unprintable name, or a version that is not a positive integer.
        """
        model, separator, version = text.partition(":")
        if not model:
            raise ValueError(f'"{text}" names no model; write MODEL or MODEL:VERSION')
        if not model.isprintable():
            raise ValueError(f"{model!a} has a character that no model's name has; write MODEL or MODEL:VERSION")
        if not separator:
            return cls(model)
        # Triton's versions are of 64 bits, and no number of theirs has more digits.
        if not (version.isascii() and version.isdigit() and len(version) <= 19) or int(version) < 1:
            raise ValueError(f'"{text}": the version "{version}" is not a positive integer; write MODEL:VERSION')
        return cls(model, int(version))

    def __str__(self) -> str:
        return self.model if self.version is None else f"{self.model}:{self.version}"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str

    def as_json(self) -> dict[str, JsonValue]:
        """The form `chat_tokenizer` and the OpenAI API read."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What a prompt and a conversation have in common.

    Attributes:
        sampling: the engine's sampling parameters, sent as the JSON tensor `sampling_parameters`. The engine's own
            default for `max_tokens` is 16, so a caller who wants an answer sets it.
        stream: ask for deltas as they are generated; otherwise for one response with the whole text.
        request_id: becomes the engine's request id; one is made up when empty.
        deadline_s: seconds after which server and client both give up; None waits for ever.
        priority: 0 is the model's default, 1 the most urgent.
        echo: prepend the prompt to the text (only without streaming).
    """

    sampling: Mapping[str, JsonValue] = field(default_factory=dict)
    stream: bool = True
    request_id: str = ""
    deadline_s: float | None = None
    priority: int = 0
    echo: bool = False
    return_finish_reason: bool = True
    return_num_input_tokens: bool = True
    return_num_output_tokens: bool = True
    return_logprobs: bool = False
    return_cumulative_logprob: bool = False

    def __post_init__(self) -> None:
        if self.echo and self.stream:
            raise ValueError(
                "echo repeats the prompt in front of the text, which a stream of deltas cannot; set stream=False"
            )
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise ValueError(f"deadline_s is {self.deadline_s}; give a number of seconds greater than 0, or None")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest(RequestOptions):
    """A raw prompt, sent as it is.

    Attributes:
        prompt: the text, chat template already applied where the model wants one.
        input_ids: the prompt's token ids, for engines that accept them; the text is then not tokenized again.
        images: base64-encoded images, for multimodal engines.
    """

    prompt: str
    input_ids: Sequence[int] | None = None
    images: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(RequestOptions):
    """A conversation; the server's `chat_tokenizer` turns it into a prompt."""

    messages: Sequence[Message]


Request: TypeAlias = GenerateRequest | ChatRequest
