"""Between prepared requests or chunks and the JSON of Triton's generate endpoints.

Triton adds and removes the batch dimension here itself, and writes a tensor of one element as a scalar.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tools.client.completion import Chunk
from tools.client.contract import PreparedRequest, TensorSpec, TensorValues
from tools.client.errors import (
    ClientError,
    MalformedResponseError,
    ServerFaultError,
    StreamTruncatedError,
    deadline_passed,
    from_http_status,
    said_by_model,
)
from tools.client.request import Target
from tools.client.sse import SSEParser
from tools.client.transport import DEADLINE_GRACE_S

# Keys of a response that are no tensors.
_ENVELOPE = frozenset({"id", "model_name", "model_version", "sequence_id", "sequence_start", "sequence_end"})


def model_path(target: Target) -> str:
    """The path of a model, or of one version of it, under the server's root."""
    path = f"/v2/models/{target.model}"
    return path if target.version is None else f"{path}/versions/{target.version}"


def encode_request(prepared: PreparedRequest) -> bytes:
    """The body for generate and generate_stream."""
    body: dict[str, Any] = {"id": prepared.request_id, **prepared.parameters}
    body.update(encode_tensors(prepared.tensors, prepared.contract.inputs))
    return json.dumps(body, ensure_ascii=False).encode("utf-8")


def encode_tensors(tensors: Mapping[str, TensorValues], specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """Inputs as JSON: a scalar where the model takes exactly one element, a list otherwise."""
    return {name: values[0] if specs[name].dims == (1,) else list(values) for name, values in tensors.items()}


def decode_chunk(text: str, target: Target, received_at: float) -> Chunk:
    """One event of generate_stream, or the whole body of generate.

    Raises:
        ClientError: the event is an error; inside a stream HTTP has no status left to give it, so it is a
            ServerFaultError where its text says no code.
        MalformedResponseError: not a JSON object, or one whose fields have other types than the outputs.
    """
    body = _load(text, target)
    try:
        served_by = Target(body["model_name"], int(body["model_version"])) if body.get("model_version") else None
        return Chunk.from_outputs(decode_tensors(body), received_at, served_by)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedResponseError(f"the response {_shortened(text)} cannot be read: {error}", target) from error


def decode_tensors(body: Mapping[str, Any]) -> dict[str, list[Any]]:
    """All outputs by name, each as a list."""
    return {
        name: value if isinstance(value, list) else [value] for name, value in body.items() if name not in _ENVELOPE
    }


def decode_outputs(text: str, target: Target) -> dict[str, list[Any]]:
    """The outputs of a model that answers once.

    Raises:
        ClientError: the body is an error; a ServerFaultError where its text says no code.
        MalformedResponseError: not a JSON object.
    """
    return decode_tensors(_load(text, target))


def decode_error(status: int, body: str, target: Target | None) -> ClientError:
    """The error for a status that is not 200. Triton's body is `{"error": ...}`, in a stream after `data: `."""
    text = body.strip()
    try:
        parsed = json.loads(text.removeprefix("data:"))
    except ValueError:
        parsed = None
    message = str(parsed["error"]) if isinstance(parsed, dict) and "error" in parsed else text or "empty body"
    return from_http_status(status, message, target)


class ResponseReader:
    """Reads the body of a 200 response as it arrives: the events of generate_stream, or the one object of generate."""

    def __init__(self, prepared: PreparedRequest, *, started_at: float) -> None:
        self._prepared = prepared
        self._gives_up_at = None if prepared.deadline_s is None else started_at + prepared.deadline_s + DEADLINE_GRACE_S
        self._events = SSEParser()
        self._body = bytearray()
        self._saw_finish_reason = False

    def feed(self, received: bytes, received_at: float) -> Iterator[Chunk]:
        """The responses completed by these bytes.

        Raises:
            ClientError: the server reports an error in place of a response, as in `decode_chunk`.
            MalformedResponseError: not UTF-8, or not JSON.
            DeadlineExceededError: the deadline passed before these bytes arrived.
        """
        deadline_s = self._prepared.deadline_s
        if self._gives_up_at is not None and deadline_s is not None and received_at > self._gives_up_at:
            raise deadline_passed(deadline_s, self._prepared.target)
        if not self._prepared.stream:
            self._body += received
            return
        try:
            events = self._events.feed(received)
        except UnicodeDecodeError as error:
            raise MalformedResponseError(f"the stream is not UTF-8: {error}", self._prepared.target) from error
        for event in events:
            yield self._read(event, received_at)

    def finish(self, received_at: float) -> Iterator[Chunk]:
        """What the end of the body completes.

        Raises:
            StreamTruncatedError: the end came in the middle of an event, or before any finish reason.
        """
        target = self._prepared.target
        if not self._prepared.stream:
            yield self._read(self._body.decode("utf-8", "replace"), received_at)
            return
        if self._events.unfinished:
            raise StreamTruncatedError(f"it broke off within {_shortened(self._events.unfinished)}", target)
        # Server-sent events have no final flag: the finish reason is the only proof that the answer is whole.
        if "return_finish_reason" in self._prepared.tensors and not self._saw_finish_reason:
            raise StreamTruncatedError("no response carried a finish reason", target)

    def _read(self, text: str, received_at: float) -> Chunk:
        chunk = decode_chunk(text, self._prepared.target, received_at)
        self._saw_finish_reason = self._saw_finish_reason or any(chunk.finish_reasons)
        return chunk


def _load(text: str, target: Target) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise MalformedResponseError(f"the response {_shortened(text)} is not JSON: {error}", target) from error
    if not isinstance(body, dict):
        raise MalformedResponseError(f"the response {_shortened(text)} is not a JSON object", target)
    if "error" in body:
        message = str(body["error"])
        raise said_by_model(message, target) or ServerFaultError("UNKNOWN", message, target)
    return body


def _shortened(text: str, limit: int = 200) -> str:
    return repr(text if len(text) <= limit else f"{text[:limit]}...")
