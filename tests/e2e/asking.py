"""Raw requests: one protobuf message or one JSON body, and what came back, with nothing read into it.

The project's own client lays requests out for its callers; the contract is tested without it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeAlias

import grpc
import httpx
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from tools.client.address import Protocol, ServerAddress
from tools.wire.error_codes import split_code

Outputs: TypeAlias = Mapping[str, list[Any]]
"""One response: every output tensor, flat."""

Value: TypeAlias = str | bytes | bool | int | Sequence[str | bytes | bool | int]

# Whatever takes longer hangs.
ANSWER_S = 180.0

_DATATYPES = {
    "stream": "BOOL",
    "exclude_input_in_output": "BOOL",
    "return_finish_reason": "BOOL",
    "return_cumulative_logprob": "BOOL",
    "return_logprobs": "BOOL",
    "return_num_input_tokens": "BOOL",
    "return_num_output_tokens": "BOOL",
    "input_ids": "INT32",
}
_NUMPY = {"BOOL": np.dtype("?"), "INT32": np.dtype("<i4"), "UINT32": np.dtype("<u4"), "FP32": np.dtype("<f4")}
_ENVELOPE = {"id", "model_name", "model_version", "sequence_id", "sequence_start", "sequence_end"}


class Way(Enum):
    """The three ways to a decoupled model."""

    GRPC = "gRPC stream"
    SSE = "generate_stream"
    GENERATE = "generate"


class RefusedError(Exception):
    """An error instead of an answer, or in its middle.

    `code` is gRPC's status name, or HTTP's status; `said` the code at the end of the text, None for what never reached
    one of our models; `message` the text without it.
    """

    def __init__(self, code: str, message: str, responses: Sequence[Outputs] = ()) -> None:
        self.code = code
        self.message, self.said = split_code(message)
        super().__init__(f"{code}: {self.message}")
        self.responses = list(responses)


@dataclass(frozen=True)
class Model:
    """Where a request goes. `batched` models have a batch dimension, which HTTP hides and gRPC does not."""

    name: str
    version: str = ""
    batched: bool = False

    @property
    def path(self) -> str:
        return f"/v2/models/{self.name}" + (f"/versions/{self.version}" if self.version else "")


class Triton:
    """One server, raw."""

    def __init__(self, address: ServerAddress) -> None:
        self.grpc_channel = grpc.insecure_channel(
            address.endpoint(Protocol.GRPC).authority,
            # A request of its own for each call, and no retries that the caller does not see.
            options=[
                ("grpc.enable_http_proxy", 0),
                ("grpc.enable_retries", 0),
                ("grpc.max_receive_message_length", -1),
            ],
        )
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.grpc_channel)
        # A connection per request: the tests of concurrency have many at once.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
        self.http = httpx.Client(
            base_url=address.endpoint(Protocol.HTTP).url, trust_env=False, timeout=ANSWER_S, limits=limits
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.grpc_channel.close()

    def ask(
        self,
        way: Way,
        model: Model,
        inputs: Mapping[str, Value],
        parameters: Mapping[str, str | int | bool | float] | None = None,
        request_id: str = "",
    ) -> list[Outputs]:
        """Every response that carries outputs. Raises RefusedError."""
        if way is Way.GRPC:
            return list(self.grpc_stream(grpc_request(model, inputs, parameters or {}, request_id)))
        body = http_body(inputs, parameters or {}, request_id)
        if way is Way.SSE:
            return list(self.sse(model, body))
        response = self.generate(model, body)
        found = json.loads(response.text)
        if response.status_code != httpx.codes.OK or "error" in found:
            raise RefusedError(str(response.status_code), found["error"])
        return [_http_outputs(found)]

    def grpc_stream(self, *requests: Any) -> Iterator[Outputs]:
        """Responses of one ModelStreamInfer as they come. Raises RefusedError."""
        call = self.grpc_call(*requests)
        responses: list[Outputs] = []
        try:
            for message in call:
                if message.error_message:
                    # A stream has no status for it. Without a code: refused before it came to a model.
                    code = split_code(message.error_message)[1]
                    # To the end, which comes at once: see `GrpcTransport`.
                    for _ in call:
                        pass
                    raise RefusedError(code or "NO_STATUS", message.error_message, responses)
                if message.infer_response.outputs:
                    responses.append(grpc_outputs(message.infer_response))
                    yield responses[-1]
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details() or "", responses) from error
        finally:
            call.cancel()

    def grpc_call(self, *requests: Any) -> Any:
        """The open call, for tests that cancel or look at it."""
        return self.stub.ModelStreamInfer(iter(requests), timeout=ANSWER_S)

    def generate(self, model: Model, body: bytes) -> httpx.Response:
        return self.http.post(f"{model.path}/generate", content=body)

    def sse(self, model: Model, body: bytes) -> Iterator[Outputs]:
        """Events of one generate_stream as they come. Raises RefusedError."""
        responses: list[Outputs] = []
        with self.http.stream("POST", f"{model.path}/generate_stream", content=body) as response:
            for line in response.iter_lines():
                if not line:
                    continue
                assert line.startswith("data: "), line
                found = json.loads(line.removeprefix("data: "))
                if "error" in found:
                    raise RefusedError(str(response.status_code), found["error"], responses)
                assert response.status_code == httpx.codes.OK, found
                responses.append(_http_outputs(found))
                yield responses[-1]

    def infer(self, model: Model, inputs: Mapping[str, Value]) -> Outputs:
        """Ask a model that answers once. Raises RefusedError."""
        try:
            return grpc_outputs(self.stub.ModelInfer(grpc_request(model, inputs), timeout=ANSWER_S))
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details() or "") from error


def grpc_request(
    model: Model,
    inputs: Mapping[str, Value],
    parameters: Mapping[str, str | int | bool | float] | None = None,
    request_id: str = "",
) -> Any:
    """A ModelInferRequest."""
    request = service_pb2.ModelInferRequest(
        model_name=model.name, model_version=model.version, id=request_id or uuid.uuid4().hex
    )
    for name, value in inputs.items():
        values = [value] if isinstance(value, str | bytes | bool | int) else list(value)
        datatype = _DATATYPES.get(name, "BYTES")
        shape = [1, len(values)] if model.batched else [len(values)]
        request.inputs.add(name=name, datatype=datatype, shape=shape)
        request.raw_input_contents.append(_raw(values, datatype))
    for name, parameter in (parameters or {}).items():
        field = request.parameters[name]
        match parameter:
            case bool():
                field.bool_param = parameter
            case int():
                field.int64_param = parameter
            case float():
                field.double_param = parameter
            case str():
                field.string_param = parameter
    return request


def grpc_outputs(response: Any) -> Outputs:
    """Outputs of a ModelInferResponse; text must be UTF-8."""
    outputs: dict[str, list[Any]] = {}
    for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        if tensor.datatype == "BYTES":
            outputs[tensor.name] = [text.decode("utf-8") for text in deserialize_bytes_tensor(raw).reshape(-1)]
        else:
            outputs[tensor.name] = np.frombuffer(raw, _NUMPY[tensor.datatype]).tolist()
        assert int(np.prod(tensor.shape)) == len(outputs[tensor.name])
    return outputs


def http_body(inputs: Mapping[str, Value], parameters: Mapping[str, Any] | None = None, request_id: str = "") -> bytes:
    """Body of the generate endpoints: inputs and parameters side by side."""
    envelope = {"id": request_id} if request_id else {}
    return json.dumps({**envelope, **inputs, **(parameters or {})}, ensure_ascii=False).encode()


def text_of(responses: Sequence[Outputs], sequence: int = 0) -> str:
    """The whole text of one sequence."""
    return "".join(response["text_output"][sequence] for response in responses)


def tokens_of(responses: Sequence[Outputs]) -> int:
    """Generated tokens of all sequences; the request asked for `return_num_output_tokens`."""
    return sum(sum(response["num_output_tokens"]) for response in responses)


def _raw(values: Sequence[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.array(values, _NUMPY[datatype]).tobytes()
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    return bytes(serialize_byte_tensor(np.array(encoded, np.object_)).item())


def _http_outputs(body: Mapping[str, Any]) -> Outputs:
    return {
        name: value if isinstance(value, list) else [value] for name, value in body.items() if name not in _ENVELOPE
    }
