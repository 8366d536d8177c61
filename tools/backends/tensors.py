"""Tensors of the contract to wire requests, and deltas to responses.

Names, types and defaults are those of NVIDIA's vLLM backend; `input_ids`, `prompt_logprobs` and the router's
`served_model` and `served_version` are ours.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from tools.wire.error_codes import with_code
from tools.wire.messages import Delta, Failure, Flags, Request, Tokenize, Tokenized

_LARGEST = 2**63 - 1
# Of what a request holds, in a text that says what is wrong with it.
_SHOWN = 40


class TensorError(Exception):
    """An input tensor that cannot be what it should be; the client gets INVALID_ARG with this text."""


def read_request(request: Any, key: int) -> Request:
    """A Triton request as a wire request. A batch dimension of 1 is read away. Raises TensorError."""
    stream = _flag(request, "stream") or False
    sampling = _text(request, "sampling_parameters")
    own = request_parameters(request)
    return Request(
        key=key,
        request_id=request.request_id(),
        prompt=_text(request, "text_input") or "",
        token_ids=_integers(request, "input_ids"),
        images=_bytes(request, "image"),
        parameters=own if sampling is None else sampling,
        parameters_source="request parameters" if sampling is None else "sampling_parameters",
        embedding=_text(request, "embedding_request"),
        stream=stream,
        echo=_echo(request, stream),
        flags=Flags(
            finish_reason=_flag(request, "return_finish_reason") or False,
            cumulative_logprob=_flag(request, "return_cumulative_logprob") or False,
            logprobs=_flag(request, "return_logprobs") or False,
            num_input_tokens=_flag(request, "return_num_input_tokens") or False,
            num_output_tokens=_flag(request, "return_num_output_tokens") or False,
        ),
        # On HTTP both arrive as request parameters. gRPC's own priority does not reach a Python backend, so that
        # it may stand among the sampling parameters as well.
        timeout_us=_whole_number("timeout", own) or request.timeout(),
        priority=_whole_number("priority", own) or _whole_number("priority", sampling or ""),
    )


def request_parameters(request: Any) -> str:
    """Triton's request parameters as JSON. Raises TensorError: over HTTP Triton takes any bytes for them."""
    try:
        return request.parameters() or "{}"
    except UnicodeDecodeError as error:
        before = error.object[max(0, error.start - _SHOWN) : error.start].decode(errors="replace")
        byte = error.object[error.start]
        raise TensorError(f"a request parameter is not UTF-8: byte 0x{byte:02x} after {json.dumps(before)}") from None


def read_chat(request: Any, key: int) -> tuple[Request, Tokenize | None]:
    """A request of the router, and what has to be tokenized for it: nothing for one that brings its own tokens or is
    to be embedded. As behind the other tokenizers, a prompt is repeated only on demand. Raises TensorError.
    """
    wire = read_request(request, key)
    if _flag(request, "exclude_input_in_output") is None:
        wire.echo = False
    if wire.token_ids is not None or wire.embedding is not None:
        return wire, None
    return wire, Tokenize(key, _text(request, "messages"), _text(request, "text_input"))


def read_tokenize(request: Any, key: int) -> tuple[Tokenize, bool]:
    """A request of the tokenizer, and its `exclude_input_in_output`, true where it has none. Raises TensorError."""
    message = Tokenize(key, _text(request, "messages"), _text(request, "text_input"), request_parameters(request))
    exclude = _flag(request, "exclude_input_in_output")
    return message, True if exclude is None else exclude


def tokenized_response(tokenized: Tokenized, exclude_input: bool) -> Any:
    """The tokenizer's answer as one response; `exclude_input` goes on to the engine, because an ensemble step can only
    pass tensors on.
    """
    if tokenized.failure is not None:
        return error_response(tokenized.failure)
    return pb_utils.InferenceResponse(
        output_tensors=[
            pb_utils.Tensor("prompt", np.array([tokenized.prompt.encode()], np.object_)),
            pb_utils.Tensor("input_ids", np.array(tokenized.token_ids, np.int32)),
            pb_utils.Tensor("num_input_tokens", np.array([len(tokenized.token_ids)], np.uint32)),
            pb_utils.Tensor("exclude_input_in_output", np.array([exclude_input], np.bool_)),
        ]
    )


def error_response(failure: Failure) -> Any:
    """A response that carries nothing but the failure."""
    code = getattr(pb_utils.TritonError, failure.code)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(with_code(failure.message, failure.code), code))


def refuse(request: Any, error: TensorError) -> None:
    """Answer a decoupled request whose tensors cannot be read."""
    failure = Failure("INVALID_ARG", str(error))
    request.get_response_sender().send(error_response(failure), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class ResponseOutlet:
    """Sends one request's deltas as Triton responses. `batched` adds the batch dimension of 1 to every output."""

    def __init__(self, request: Any, wire: Request, *, batched: bool) -> None:
        self._sender = request.get_response_sender()
        self._wire = wire
        self._batched = batched

    def send(self, delta: Delta) -> None:
        if delta.failure is None:
            self._send(pb_utils.InferenceResponse(output_tensors=self._outputs(delta)), delta.final)
            return
        if self._wire.stream and any(delta.texts):
            # Text that was merged with the failure came before it, and is the client's.
            self._send(pb_utils.InferenceResponse(output_tensors=self._outputs(delta)), final=False)
        self._send(error_response(delta.failure), final=True)

    def is_cancelled(self) -> bool:
        return bool(self._sender.is_cancelled())

    def _send(self, response: Any, final: bool) -> None:
        self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0)

    def _outputs(self, delta: Delta) -> list[Any]:
        wire, flags = self._wire, self._wire.flags
        start = wire.prompt if wire.echo and wire.embedding is None else ""
        outputs = [self._strings("text_output", [start + text for text in delta.texts])]
        if flags.finish_reason:
            outputs.append(self._strings("finish_reason", [str(reason) for reason in delta.finish_reasons]))
        if flags.cumulative_logprob:
            values = [float("nan") if value is None else value for value in delta.cumulative_logprobs or []]
            outputs.append(self._tensor("cumulative_logprob", np.array(values, np.float32)))
        if flags.logprobs:
            outputs.append(self._strings("logprobs", _logprobs(delta)))
        if flags.logprobs and delta.prompt_logprobs is not None:
            outputs.append(self._strings("prompt_logprobs", [_json_list(delta.prompt_logprobs)]))
        if flags.num_input_tokens:
            outputs.append(self._tensor("num_input_tokens", np.array([delta.num_input_tokens], np.uint32)))
        if flags.num_output_tokens:
            outputs.append(self._tensor("num_output_tokens", np.array(delta.token_counts, np.uint32)))
        return outputs

    def _strings(self, name: str, values: list[str]) -> Any:
        return self._tensor(name, np.array([value.encode() for value in values], np.object_))

    def _tensor(self, name: str, values: np.ndarray[Any, Any]) -> Any:
        return pb_utils.Tensor(name, values.reshape(1, -1) if self._batched else values)


class RoutedOutlet(ResponseOutlet):
    """Says in the first response which target the answer comes from.

    Not in every one: at 32 streams these two outputs took a fifth of the CPU time that a token costs.
    """

    def __init__(self, request: Any, wire: Request) -> None:
        super().__init__(request, wire, batched=False)
        self._served: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None

    def serve_by(self, model: str, version: int) -> None:
        """The answer will be this target's, as far as nothing of it has been sent yet."""
        self._served = np.array([model.encode()], np.object_), np.array([version], np.int32)

    def _outputs(self, delta: Delta) -> list[Any]:
        outputs = super()._outputs(delta)
        if self._served is not None:
            model, version = self._served
            self._served = None
            outputs += [pb_utils.Tensor("served_model", model), pb_utils.Tensor("served_version", version)]
        return outputs


def _logprobs(delta: Delta) -> list[str]:
    """One JSON list per sequence; "null" when the request named no `logprobs`, as the contract has it."""
    if delta.logprobs is None:
        return ["null"] * len(delta.texts)
    return [_json_list(tokens) for tokens in delta.logprobs]


def _json_list(items: list[str]) -> str:
    return f"[{', '.join(items)}]"


def _whole_number(name: str, parameters: str) -> int:
    """Value of a parameter in 0 .. 2^63 - 1, 0 when it is not there. What is no JSON is the engine's to refuse."""
    if f'"{name}"' not in parameters:
        return 0
    try:
        value = json.loads(parameters).get(name, 0)
    except (ValueError, AttributeError, RecursionError):
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        shown = json.dumps(value)
        raise TensorError(
            f'parameter "{name}" is {shown if len(shown) <= 120 else shown[:117] + "..."}: '
            f"it takes a whole number, at least 0 and at most {_LARGEST}"
        )
    return value


def _echo(request: Any, stream: bool) -> bool:
    """Whether the prompt precedes the answer: by default only when not streaming."""
    exclude = _flag(request, "exclude_input_in_output")
    if exclude is None:
        return not stream
    if stream and not exclude:
        raise TensorError(
            '"exclude_input_in_output" is false and "stream" is true: a stream cannot repeat the prompt, '
            'leave "exclude_input_in_output" out or set it to true'
        )
    return not exclude


def _array(request: Any, name: str) -> np.ndarray[Any, Any] | None:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().reshape(-1)


def _first(request: Any, name: str) -> Any:
    values = _array(request, name)
    if values is None:
        return None
    if len(values) != 1:
        raise TensorError(f'"{name}" has {len(values)} elements: it takes exactly 1')
    return values[0]


def _text(request: Any, name: str) -> str | None:
    value = _first(request, name)
    if value is None or isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise TensorError(f'"{name}" is not UTF-8: byte {error.start} is 0x{value[error.start]:02x}') from error


def _flag(request: Any, name: str) -> bool | None:
    value = _first(request, name)
    return None if value is None else bool(value)


def _integers(request: Any, name: str) -> list[int] | None:
    values = _array(request, name)
    return None if values is None else values.tolist()


def _bytes(request: Any, name: str) -> list[bytes]:
    values = _array(request, name)
    return [] if values is None else [value.encode() if isinstance(value, str) else bytes(value) for value in values]
