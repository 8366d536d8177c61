"""The wire format: what is sent is what is read, also between neighbouring releases."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.strategies import to_engine, to_peer
from tools.wire.messages import (
    PROTOCOL,
    Cancel,
    Delta,
    Failure,
    Flags,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Request,
    Sample,
    Step,
    Submit,
    ToEngine,
    Tokenize,
    Tokenized,
    ToPeer,
    Welcome,
    decode_to_engine,
    decode_to_peer,
    encode,
)
from tools.wire.release import Condition, Release, Route, Shadow, Target

NESTED = (Request, Flags, Failure, Delta, Sample, Release, Route, Target, Shadow, Condition)


@given(to_engine)
def test_what_a_peer_sends_is_what_the_engine_reads(message: ToEngine) -> None:
    assert decode_to_engine(encode(message)) == message


@given(to_peer)
def test_what_the_engine_sends_is_what_a_peer_reads(message: ToPeer) -> None:
    assert decode_to_peer(encode(message)) == message


@pytest.mark.parametrize(("union", "strategy"), [(ToEngine, to_engine), (ToPeer, to_peer)])
def test_the_strategies_know_every_message(union: Any, strategy: Any) -> None:
    kinds = {branch.wrapped_strategy.target for branch in strategy.original_strategies}
    assert kinds == set(get_args(union))


def longer(value: Any) -> Any:
    """The plain form of a message as a newer release might send it: a field more at the end of each struct."""
    if isinstance(value, msgspec.Struct):
        tag = [value.__struct_config__.tag] if value.__struct_config__.tag else []
        return [*tag, *(longer(getattr(value, name)) for name in value.__struct_fields__), {"new": [1, None]}]
    if isinstance(value, list):
        return [longer(item) for item in value]
    return value


def shorter(value: Any) -> Any:
    """The plain form as an older release might send it: without the fields at the end that are at their default."""
    if isinstance(value, msgspec.Struct):
        tag = [value.__struct_config__.tag] if value.__struct_config__.tag else []
        values = [getattr(value, name) for name in value.__struct_fields__]
        defaults = value.__struct_defaults__
        while defaults and values and values[-1] == _default(defaults[-1]):
            values.pop()
            defaults = defaults[:-1]
        return [*tag, *(shorter(item) for item in values)]
    if isinstance(value, list):
        return [shorter(item) for item in value]
    return value


def _default(default: Any) -> Any:
    return default.factory() if hasattr(default, "factory") else default


@given(to_engine)
def test_an_engine_reads_what_a_newer_or_older_peer_says(message: ToEngine) -> None:
    assert decode_to_engine(msgspec.msgpack.encode(longer(message))) == message
    assert decode_to_engine(msgspec.msgpack.encode(shorter(message))) == message


@given(to_peer)
def test_a_peer_reads_what_a_newer_or_older_engine_says(message: ToPeer) -> None:
    assert decode_to_peer(msgspec.msgpack.encode(longer(message))) == message
    assert decode_to_peer(msgspec.msgpack.encode(shorter(message))) == message


def test_the_layout_of_protocol_1() -> None:
    """Fields in their order, defaults included: to change one of these lines is to raise PROTOCOL."""
    assert PROTOCOL == 1
    assert {kind.__name__: kind.__struct_fields__ for kind in (*NESTED, *get_args(ToEngine), *get_args(ToPeer))} == {
        "Failure": ("code", "message", "reason"),
        "Flags": ("finish_reason", "cumulative_logprob", "logprobs", "num_input_tokens", "num_output_tokens"),
        "Request": (
            "key", "request_id", "prompt", "token_ids", "images", "parameters", "parameters_source", "embedding",
            "stream", "echo", "flags", "timeout_us", "priority",
        ),
        "Delta": (
            "key", "texts", "token_counts", "finish_reasons", "num_input_tokens", "final", "cumulative_logprobs",
            "logprobs", "failure", "prompt_logprobs",
        ),
        "Sample": ("name", "value", "label", "observations", "bucket_counts"),
        "Hello": ("protocol", "peer", "metrics"),
        "Submit": ("requests", "together"),
        "Cancel": ("keys", "reason"),
        "Ping": ("nonce",),
        "Drain": ("grace_s",),
        "Tokenize": ("key", "messages", "text", "parameters"),
        "Welcome": ("protocol", "engine", "pid", "max_model_len", "max_num_seqs", "description"),
        "Step": ("deltas",),
        "Tokenized": ("key", "prompt", "token_ids", "failure"),
        "Pong": ("nonce", "problem"),
        "Metrics": ("samples",),
        "Goodbye": ("reason",),
        "WatchRelease": (),
        "Released": ("release", "source", "problem"),
        "Release": ("routes",),
        "Route": ("name", "targets", "fallback", "condition", "sticky", "shadow"),
        "Target": ("model", "version", "weight", "max_in_flight"),
        "Shadow": ("model", "version", "share", "max_in_flight"),
        "Condition": ("parameters", "headers", "over", "under"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        (Hello(1, "stub", True), ["hello", 1, "stub", True]),
        (Ping(3), ["ping", 3]),
        (Cancel([4]), ["cancel", [4], "client"]),
        (Tokenize(1, None, "t"), ["tokenize", 1, None, "t", "{}"]),
        (Welcome(1, "mock", 2, 3, 4), ["welcome", 1, "mock", 2, 3, 4, ""]),
        (Step([Delta(1, ["a"], [1], [None])]), ["step", [[1, ["a"], [1], [None], 0, False, None, None, None, None]]]),
        (Tokenized(1, "p", [2], Failure("INTERNAL", "x")), ["tokenized", 1, "p", [2], ["INTERNAL", "x", ""]]),
        (Pong(1), ["pong", 1, ""]),
        (Goodbye("r"), ["goodbye", "r"]),
        (
            Submit([Request(1, "id", "p")]),
            [
                "submit",
                [[1, "id", "p", None, [], "{}", "sampling_parameters", None, False, False, [False] * 5, 0, 0]],
                False,
            ],
        ),
    ],
)
def test_the_bytes_of_protocol_1(message: Any, plain: list[Any]) -> None:
    """As another language's MessagePack would see them."""
    assert msgspec.msgpack.decode(encode(message)) == plain


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        encode(Goodbye("x")),
        msgspec.msgpack.encode(["hello"]),
        msgspec.msgpack.encode(["cancel", [1], "boredom"]),
        msgspec.msgpack.encode({"type": "ping", "nonce": 1}),
        encode(Ping(1))[:-1],
        encode(Ping(1)) + b"\x00",
    ],
)
def test_anything_else_is_refused(frame: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_to_engine(frame)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_read_or_refused(frame: bytes) -> None:
    for decode in (decode_to_engine, decode_to_peer):
        try:
            decode(frame)
        except msgspec.DecodeError:
            continue


def test_defaults_are_not_shared_between_messages() -> None:
    first, second = Request(1, "", ""), Request(2, "", "")
    first.images.append(b"x")
    assert second.images == []
