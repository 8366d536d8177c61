"""The messages themselves: msgspec structs, sent as msgpack arrays over a Unix socket.

A peer (a model's stub, or the release router's) speaks to an engine over two sockets: PUSH to the engine's PULL for
requests, frames [peer name, message], and a DEALER named after the peer to the engine's ROUTER for what comes back.
Each socket belongs to one thread and is used in one direction, so no lock is held while either side waits. New fields
go to the end of a struct, with a default: an older peer then still reads the message. Any other change raises
`PROTOCOL`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .error_codes import ErrorCode
from .release import Released, WatchRelease

PROTOCOL: Final = 1

CancelReason = Literal["client", "unload"]


# What the code does not tell apart and a router must: a request that another engine may well answer ("queue_full",
# "unloading", "engine_died") and one whose time is up ("deadline").
FailureReason = Literal["", "queue_full", "unloading", "engine_died", "deadline"]


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """Why a request ended without its answer; `code` is the name of a Triton error code."""

    code: ErrorCode
    message: str
    reason: FailureReason = ""


class Flags(msgspec.Struct, array_like=True, frozen=True):
    """Which optional outputs a request asked for."""

    finish_reason: bool = False
    cumulative_logprob: bool = False
    logprobs: bool = False
    num_input_tokens: bool = False
    num_output_tokens: bool = False


class Request(msgspec.Struct, array_like=True):
    """One generation or embedding request, as read from the tensors and not yet validated.

    `key` names the stream between this peer and this engine and is never reused by the peer. `parameters` is the JSON
    text of the sampling parameters, from the tensor of that name or from the request's own parameters, and
    `parameters_source` says which, for error texts. `timeout_us` and `priority` are Triton's (0: not set; priority 1
    is the highest).
    """

    key: int
    request_id: str
    prompt: str
    token_ids: list[int] | None = None
    images: list[bytes] = []
    parameters: str = "{}"
    parameters_source: Literal["sampling_parameters", "request parameters"] = "sampling_parameters"
    embedding: str | None = None
    stream: bool = False
    echo: bool = False
    flags: Flags = Flags()
    timeout_us: int = 0
    priority: int = 0


class Hello(msgspec.Struct, array_like=True, tag="hello"):
    """A peer's first message, repeated until `Welcome` comes: its answers go to the reading socket named `peer`.

    Counters are sent as increases, so only one peer (the model's stub) may ask for `metrics`.
    """

    protocol: int
    peer: str
    metrics: bool = False


class Submit(msgspec.Struct, array_like=True, tag="submit"):
    """Requests that came in one execute() call. `together` asks the engine to generate them as one batch."""

    requests: list[Request]
    together: bool = False


class Cancel(msgspec.Struct, array_like=True, tag="cancel"):
    """Stop these streams; each still gets one final delta, which carries the failure."""

    keys: list[int]
    reason: CancelReason = "client"


class Ping(msgspec.Struct, array_like=True, tag="ping"):
    """Asks the engine whether it is healthy; answered by `Pong` with the same `nonce`."""

    nonce: int


class Drain(msgspec.Struct, array_like=True, tag="drain"):
    """Finish what is in flight for at most `grace_s` seconds, cancel the rest, then exit."""

    grace_s: float


class Tokenize(msgspec.Struct, array_like=True, tag="tokenize"):
    """Render `messages` (JSON list of role/content objects) or take `text`, and encode it with exactly one BOS."""

    key: int
    messages: str | None
    text: str | None
    parameters: str = "{}"


class Welcome(msgspec.Struct, array_like=True, tag="welcome"):
    """What the engine is: sent once to each peer that said `Hello`, when the engine is ready to take requests."""

    protocol: int
    engine: str
    pid: int
    max_model_len: int
    max_num_seqs: int
    description: str = ""


class Delta(msgspec.Struct, array_like=True):
    """What one stream gained since its last delta.

    The lists have one entry per sequence (`n` of them): new text, number of new tokens, finish reason (None while it
    runs), cumulative logprob, and the new tokens' logprobs, each already a JSON object as text. `num_input_tokens` is
    the prompt's length, repeated in each delta. `failure` ends the stream; so does `final`. `prompt_logprobs` has one
    JSON text per token of the prompt, "null" for the first, which follows nothing; it comes once.
    """

    key: int
    texts: list[str]
    token_counts: list[int]
    finish_reasons: list[str | None]
    num_input_tokens: int = 0
    final: bool = False
    cumulative_logprobs: list[float | None] | None = None
    logprobs: list[list[str]] | None = None
    failure: Failure | None = None
    prompt_logprobs: list[str] | None = None


class Step(msgspec.Struct, array_like=True, tag="step"):
    """Everything that one step of the engine produced for this peer."""

    deltas: list[Delta]


class Tokenized(msgspec.Struct, array_like=True, tag="tokenized"):
    """Answer to `Tokenize`: encoding `prompt` as the engine does gives exactly `token_ids`; or the failure."""

    key: int
    prompt: str
    token_ids: list[int]
    failure: Failure | None = None


class Pong(msgspec.Struct, array_like=True, tag="pong"):
    """Answer to `Ping`; `problem` is empty when the engine is healthy."""

    nonce: int
    problem: str = ""


class Sample(msgspec.Struct, array_like=True):
    """One metric's news. Counter: the increase. Gauge: the value. Histogram: see `observations` and `bucket_counts`."""

    name: str
    value: float = 0.0
    label: str = ""
    observations: list[float] = []
    bucket_counts: list[int] = []


class Metrics(msgspec.Struct, array_like=True, tag="metrics"):
    """What changed since the last push: sent a few times a second to the one peer that asked for it."""

    samples: list[Sample]


class Goodbye(msgspec.Struct, array_like=True, tag="goodbye"):
    """The engine ends and says why; every stream that is still open has failed with UNAVAILABLE."""

    reason: str


ToEngine = Hello | Submit | Cancel | Ping | Drain | Tokenize | WatchRelease
ToPeer = Welcome | Step | Tokenized | Pong | Metrics | Goodbye | Released

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_to_peer = msgspec.msgpack.Decoder(ToPeer)


def encode(message: ToEngine | ToPeer) -> bytes:
    """Message as msgpack bytes."""
    return _encoder.encode(message)


def decode_to_engine(frame: bytes) -> ToEngine:
    """Message of a peer. Raises msgspec.DecodeError or msgspec.ValidationError for anything else."""
    return _to_engine.decode(frame)


def decode_to_peer(frame: bytes) -> ToPeer:
    """Message of an engine. Raises msgspec.DecodeError or msgspec.ValidationError for anything else."""
    return _to_peer.decode(frame)
