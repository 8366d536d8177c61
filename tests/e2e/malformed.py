"""Requests that are wrong in every way we could think of, the same ones at each run.

Over gRPC they go without the metadata `triton_grpc_error: true`, as all of ours: with it, the gRPC front end of
tritonserver 2.51 itself ends (SIGSEGV) at a BYTES tensor whose lengths do not fit its content.
"""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from tests.e2e.asking import Model, Triton, grpc_request, http_body
from tests.e2e.rungs import BASELINES, CHATS, LLM, TOKENIZER, conversation, sampling
from tools.client.address import ServerAddress

# Whatever is not answered by then hangs.
ANSWER_S = 120.0
_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
_INFER = "/inference.GRPCInferenceService/ModelInfer"

RUNGS = (LLM, *BASELINES, TOKENIZER, *CHATS)


@dataclass(frozen=True)
class Case:
    """One wrong request. `send` returns once the server has answered or has closed the connection."""

    name: str
    send: Callable[[Triton], None]


def cases(count: int, address: ServerAddress, seed: int = 20260718) -> Iterator[Case]:
    """`count` cases, every kind in turn."""
    chance = random.Random(seed)
    kinds = (_broken_json, _odd_json, _odd_sampling, _odd_tensor, _odd_parameters, _odd_protobuf, _odd_messages)
    kinds += (_odd_address, _odd_bytes)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        case = kind(chance, address)
        yield Case(f"{number} {kind.__name__.strip('_')}: {case.name}", case.send)


# HTTP


def _post(path: str, body: bytes, headers: dict[str, str] | None = None) -> Callable[[Triton], None]:
    def send(triton: Triton) -> None:
        response = triton.http.post(path, content=body, headers=headers, timeout=ANSWER_S)
        assert response.status_code < 600

    return send


def _broken_json(chance: random.Random, _: ServerAddress) -> Case:
    """A valid body, cut, with bytes changed, or something else altogether."""
    model = chance.choice(RUNGS)
    whole = http_body({**_valid(model), "sampling_parameters": sampling(2)})
    body = chance.choice(
        [
            lambda: whole[: chance.randrange(len(whole))],
            lambda: _mutated(chance, whole),
            lambda: chance.randbytes(chance.randrange(200)),
            lambda: b"[" * chance.choice([10, 1000]),
            lambda: b'{"text_input":' * chance.choice([10, 1000]),
            lambda: b"",
            lambda: b"null",
            lambda: b'"text"',
            lambda: b"[1, 2]",
            lambda: b'{"text_input": "\xff\xfe", "sampling_parameters": "{\\"max_tokens\\": 1}"}',
            lambda: b'{"text_input": 1e999}',
            lambda: b'{"text_input": "a", "text_input": "b", "max_tokens": 1}',
            lambda: b"\xef\xbb\xbf" + whole,
            lambda: whole.decode().encode("utf-16"),
        ]
    )()
    way = chance.choice(["generate", "generate_stream"])
    return Case(f"{model.name} {body[:60]!r}", _post(f"{model.path}/{way}", body))


def _odd_json(chance: random.Random, _: ServerAddress) -> Case:
    """A key too many, or one with a value of another kind."""
    model = chance.choice(RUNGS)
    name = chance.choice(
        ["text_input", "messages", "stream", "input_ids", "image", "exclude_input_in_output", "return_logprobs",
         "sampling_parameters", "embedding_request", "max_tokens", "timeout", "priority", "id", "parameters",
         "sequence_id", "\u0000", "a" * 5000, "triton_enable_empty_final_response"]
    )  # fmt: skip
    value = _any_value(chance)
    body: dict[str, Any] = {**_valid(model), "max_tokens": 1, name: value}
    way = chance.choice(["generate", "generate_stream"])
    encoded = json.dumps(body, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return Case(f"{model.name} {name[:30]}={str(value)[:40]}", _post(f"{model.path}/{way}", encoded))


def _odd_address(chance: random.Random, _: ServerAddress) -> Case:
    """Other paths, methods, versions and headers."""
    body = http_body({"text_input": "a", "max_tokens": 1})
    version = chance.choice(["0", "-1", "99", "abc", "1" * 40, "1.0", "%00", "../1"])
    path = chance.choice(
        [
            f"/v2/models/{LLM.name}/versions/{version}/generate",
            f"/v2/models/{chance.choice(['', 'nobody', 'a' * 3000, '%ff', '..', 'llm_bf16%20'])}/generate",
            f"{LLM.path}/infer",
            f"{LLM.path}/generate_streams",
            "/v2/models/llm_bf16/trace/setting",
            f"{TOKENIZER.path}/infer",
        ]
    )
    headers = chance.choice(
        [{}, {"content-encoding": "gzip"}, {"inference-header-content-length": "99999999"},
         {"inference-header-content-length": "-1"}, {"content-type": "text/plain; charset=nonsense"}]
    )  # fmt: skip
    method = chance.choice(["POST", "POST", "GET", "PUT", "DELETE"])

    def send(triton: Triton) -> None:
        triton.http.request(method, path, content=body, headers=headers, timeout=ANSWER_S)

    return Case(f"{method} {path[:60]} {headers}", send)


def _odd_bytes(chance: random.Random, address: ServerAddress) -> Case:
    """What is no HTTP and no gRPC, or stops in the middle."""
    head = f"POST {LLM.path}/generate HTTP/1.1\r\nHost: x\r\nContent-Length: "
    data = chance.choice(
        [
            chance.randbytes(300),
            b"GET / HTTP/9.9\r\n\r\n",
            head.encode() + b'999\r\n\r\n{"text_input": "a", "max_t',
            head.encode() + b"-5\r\n\r\n{}",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(200),
            b"A" * 20_000,
        ]
    )
    port = chance.choice([address.http_port, address.grpc_port, address.metrics_port])

    def send(_: Triton) -> None:
        with socket.create_connection((address.host, port), timeout=ANSWER_S) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(2)
                connection.recv(1024)
            except OSError:
                # Neither front end owes an answer to this, nor has to read it to its end.
                return

    return Case(f"port {port} {data[:40]!r}", send)


# gRPC


def _stream(*requests: Any) -> Callable[[Triton], None]:
    def send(triton: Triton) -> None:
        try:
            for _ in triton.stub.ModelStreamInfer(iter(requests), timeout=ANSWER_S):
                pass
        except grpc.RpcError as error:
            _require_answer(error)

    return send


def _require_answer(error: Any) -> None:
    """The codes of gRPC itself for a server that hangs, and for one that has gone."""
    assert error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE), error.details()


def _request(chance: random.Random, model: Model, inputs: dict[str, Any]) -> Any:
    """A valid request, with an id that is the same at every run."""
    return grpc_request(model, inputs, request_id=f"{chance.getrandbits(64):016x}")


def _odd_sampling(chance: random.Random, _: ServerAddress) -> Case:
    """Sampling parameters that are no JSON, are out of every range, or name what is not there."""
    model = chance.choice((LLM, LLM, LLM, *BASELINES, *CHATS))
    text: str | bytes = chance.choice(
        [
            lambda: chance.randbytes(chance.randrange(1, 100)),
            lambda: "[" * 50_000,
            lambda: '{"a":' * 20_000,
            lambda: json.dumps({chance.choice(_SAMPLING): _any_value(chance), "max_tokens": 1}),
            lambda: json.dumps({chance.choice(_SAMPLING): _any_value(chance), "max_tokens": 1}),
            lambda: json.dumps({**chance.choice(_TEMPTING), "max_tokens": 2}),
            lambda: json.dumps({**chance.choice(_TEMPTING), "max_tokens": 2}),
            lambda: '{"max_tokens": 1, "seed": 1' + "0" * 400 + "}",
            lambda: '{"max_tokens": 1, "temperature": 1e400}',
            lambda: '{"max_tokens": 1e308}',
        ]
    )()
    inputs: dict[str, Any] = {**_valid(model), "sampling_parameters": text, "stream": chance.random() < 0.5}
    return Case(f"{model.name} {text[:80]!r}", _stream(_request(chance, model, inputs)))


_SAMPLING = (
    "n", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids", "bad_words", "ignore_eos",
    "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "detokenize", "skip_special_tokens",
    "structured_outputs", "logit_bias", "allowed_token_ids", "lora_name", "repetition_penalty", "presence_penalty",
    "timeout", "priority", "truncate_prompt_tokens", "extra_args", "output_kind", "_all_stop_token_ids",
)  # fmt: skip

# Of the right type, and still a trap for an engine that trusts them.
_TEMPTING: tuple[dict[str, Any], ...] = (
    {"logit_bias": {"999999999": 1}},
    {"logit_bias": {"-1": 5}},
    {"logit_bias": {"a": 1}},
    {"logit_bias": {"5": "x"}},
    {"logit_bias": {"5": 1e308}},
    {"allowed_token_ids": []},
    {"allowed_token_ids": [49152]},
    {"allowed_token_ids": [2147483647]},
    {"stop_token_ids": [2147483647]},
    {"stop": ["", ""]},
    {"stop": [""]},
    {"stop": ["x" * 20_000]},
    {"stop": ["a"] * 2000},
    {"bad_words": [""]},
    {"bad_words": ["\u0000", " "]},
    {"min_tokens": 5},
    {"n": 128, "temperature": 1},
    {"logprobs": 20, "n": 8, "temperature": 1},
    {"logprobs": -1},
    {"prompt_logprobs": 3},
    {"prompt_logprobs": -1},
    {"detokenize": False},
    {"detokenize": False, "stop": ["a"]},
    {"top_k": 2147483647},
    {"top_p": 1e-300, "temperature": 1},
    {"temperature": 1e-300},
    {"temperature": 100, "top_k": 1},
    {"repetition_penalty": 1e-300},
    {"seed": -9223372036854775808, "temperature": 1},
    {"seed": 9223372036854775807, "temperature": 1},
    {"structured_outputs": {"regex": "("}},
    {"structured_outputs": {"regex": "(a+)+" * 20}},
    {"structured_outputs": {"regex": ""}},
    {"structured_outputs": {"regex": 5}},
    {"structured_outputs": {"choice": []}},
    {"structured_outputs": {"choice": [1, None]}},
    {"structured_outputs": {"choice": ["\u0000\ud83d\ude00"]}},
    {"structured_outputs": {"json": "no schema"}},
    {"structured_outputs": {"json": {"type": "nonsense"}}},
    {"structured_outputs": {"json": {"$ref": "#/definitions/nowhere"}}},
    {"structured_outputs": {"json": {"type": "array", "minItems": 10**9}}},
    {"structured_outputs": {"grammar": "root ::= "}},
    {"structured_outputs": {"grammar": "root ::= root"}},
    {"structured_outputs": {"structural_tag": "{}"}},
    {"structured_outputs": {"json_object": True, "regex": "a"}},
    {"structured_outputs": {"choice": ["a"], "_backend": "guidance"}},
    {"structured_outputs": {"whitespace_pattern": "["}},
    {"ignore_eos": True, "min_tokens": 2, "stop_token_ids": [0]},
)


def _odd_tensor(chance: random.Random, _: ServerAddress) -> Case:
    """Tensors of other types, shapes, lengths and names; the bytes do not match what is said of them."""
    model = chance.choice(RUNGS)
    request = _request(
        chance, model, {**_valid(model), **({} if model is TOKENIZER else {"sampling_parameters": sampling(1)})}
    )
    number = chance.randrange(len(request.inputs))
    tensor = request.inputs[number]
    what = chance.choice(
        ["type", "shape", "name", "cut", "longer", "random", "missing", "twice", "negative", "huge", "no bytes",
         "contents too", "output", "empty", "length"]
    )  # fmt: skip
    raw = request.raw_input_contents
    match what:
        case "type":
            tensor.datatype = chance.choice(["INT32", "FP32", "BOOL", "BYTES", "UINT64", "", "nonsense", "BF16"])
        case "shape":
            tensor.shape[:] = chance.choice([[], [0], [2], [1, 1, 1], [1, 2], [5, 5]])
        case "negative":
            tensor.shape[:] = [-1]
        case "huge":
            tensor.shape[:] = [2**62, 4]
        case "name":
            tensor.name = chance.choice(["", "nobody", "text_output", "a" * 10_000, "\u0000"])
        case "cut":
            raw[number] = raw[number][: chance.randrange(len(raw[number]))]
        case "longer":
            raw[number] = raw[number] + chance.randbytes(9)
        case "random":
            raw[number] = chance.randbytes(chance.randrange(1, 60))
        case "length":
            raw[number] = struct.pack("<I", chance.choice([0, 5, 2**31, 2**32 - 1])) + raw[number][4:]
        case "missing":
            del request.inputs[number]
            del raw[number]
        case "twice":
            request.inputs.add().CopyFrom(tensor)
            raw.append(raw[number])
        case "no bytes":
            del raw[number]
        case "contents too":
            tensor.contents.bytes_contents.append(b"a")
        case "output":
            request.outputs.add(name=chance.choice(["nobody", "", "text_output", "text_input"]))
        case "empty":
            raw[number] = b""
    return Case(f"{model.name}{model.version} {tensor.name[:20]} {what}", _stream(request))


def _odd_parameters(chance: random.Random, _: ServerAddress) -> Case:
    """Request parameters of gRPC, which have types of their own."""
    model = chance.choice(RUNGS)
    request = _request(
        chance, model, {**_valid(model), **({} if model is TOKENIZER else {"sampling_parameters": sampling(1)})}
    )
    name = chance.choice(
        ["timeout", "priority", "sequence_id", "sequence_start", "binary_data_output", "max_tokens", "", "\u0000",
         "triton_enable_empty_final_response", "shared_memory_region", "a" * 5000]
    )  # fmt: skip
    field = request.parameters[name]
    match chance.randrange(6):
        case 0:
            field.int64_param = chance.choice([-1, 0, -(2**63), 2**63 - 1])
        case 1:
            field.string_param = chance.choice(["", "x" * 10_000, "5", "\u0000"])
        case 2:
            field.bool_param = True
        case 3:
            field.double_param = chance.choice([float("nan"), float("inf"), -1.5])
        case 4:
            field.uint64_param = 2**64 - 1
        case _:
            field.SetInParent()
    if chance.random() < 0.3:
        request.id = chance.choice(["\u0000", "a" * 100_000, "\U0001f600", " "])
    if chance.random() < 0.2:
        request.model_version = chance.choice(["0", "-1", "x", "9" * 30])
    return Case(f"{model.name} {name[:30]} {str(field)[:40]}", _stream(request))


def _odd_protobuf(chance: random.Random, _: ServerAddress) -> Case:
    """Bytes that are no ModelInferRequest, and calls that do not fit the model."""
    whole = _request(chance, LLM, {"text_input": "a", "sampling_parameters": sampling(1)}).SerializeToString()
    data = chance.choice(
        [
            lambda: b"",
            lambda: chance.randbytes(chance.randrange(1, 300)),
            lambda: whole[: chance.randrange(1, len(whole))],
            lambda: _mutated(chance, whole),
            lambda: b"\x0a" * 5000,
        ]
    )()
    path = chance.choice([_STREAM, _STREAM, _INFER])

    def send(triton: Triton) -> None:
        open_call = triton.grpc_channel.stream_stream if path == _STREAM else triton.grpc_channel.unary_unary
        call = open_call(path, request_serializer=bytes, response_deserializer=bytes)
        try:
            if path == _STREAM:
                list(call(iter([data]), timeout=ANSWER_S))
            else:
                call(data, timeout=ANSWER_S)
        except grpc.RpcError as error:
            _require_answer(error)

    return Case(f"{path.rpartition('/')[2]} {data[:40]!r}", send)


def _odd_messages(chance: random.Random, _: ServerAddress) -> Case:
    """Conversations that are none."""
    model = chance.choice((TOKENIZER, *CHATS))
    text: str | bytes = chance.choice(
        [
            lambda: chance.randbytes(chance.randrange(1, 80)),
            lambda: _mutated(chance, conversation("Hello", "Hi", "How are you?").encode()),
            lambda: "[" * 30_000,
            lambda: json.dumps([_any_value(chance)]),
            lambda: json.dumps([{"role": _any_value(chance), "content": "a"}]),
            lambda: json.dumps([{"role": "user", "content": _any_value(chance)}]),
            lambda: json.dumps([{"role": "user", "content": [{"type": "text", "text": _any_value(chance)}]}]),
            lambda: json.dumps([{"role": "user", "content": "{{ 1/0 }} {% for %} {{ self.__class__ }}"}]),
            lambda: json.dumps([{"role": "user", "content": "<|im_end|>" * 300}]),
            lambda: json.dumps([{"role": "user", "content": "\u0000\u202e\ufffe"}]),
            lambda: conversation(*["a"] * 700),
        ]
    )()
    inputs = {"messages": text}
    if model is not TOKENIZER:
        inputs["sampling_parameters"] = sampling(1)
    return Case(f"{model.name} {text[:60]!r}", _stream(_request(chance, model, inputs)))


# Values


def _valid(model: Model) -> dict[str, Any]:
    if model in (TOKENIZER, *CHATS):
        return {"messages": conversation("Hi")}
    return {"text_input": "Hi"}


def _mutated(chance: random.Random, data: bytes) -> bytes:
    """Up to five bytes changed, put in or taken out."""
    found = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        position = chance.randrange(len(found))
        match chance.randrange(3):
            case 0:
                found[position] = chance.randrange(256)
            case 1:
                found.insert(position, chance.randrange(256))
            case _:
                del found[position]
    return bytes(found)


def _any_value(chance: random.Random) -> Any:
    return chance.choice(
        [None, True, 0, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 1.5, -1e300, 5e-324, "", "abc", "\u0000", "1e5",
         "é" * 2000, [], [[]], [1, "a"], {}, {"a": {"b": []}}, ["x"] * 3000, [0] * 5000, 10**50, "null", "\ud83d"]
    )  # fmt: skip
