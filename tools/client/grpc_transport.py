"""Requests over gRPC: ModelStreamInfer for answers, ModelInfer for models that answer once.

The generated stub is used rather than tritonclient's InferenceServerClient: one call per request gives each request its
own status code, its own cancellation and its own clock.
"""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import closing
from time import perf_counter
from typing import Any

import grpc
from tritonclient.grpc import service_pb2_grpc

from tools.client.address import Endpoint
from tools.client.completion import Chunk
from tools.client.contract import ModelContract, PreparedRequest, TensorValues
from tools.client.errors import ClientError, StreamTruncatedError, from_grpc_code
from tools.client.grpc_channel import Channel, from_rpc_error, open_async_channel, open_channel
from tools.client.grpc_codec import decode_chunk, decode_tensors, encode_request, encode_tensors
from tools.client.grpc_waiting import answer_of, responses_of
from tools.client.request import Target
from tools.client.transport import DEADLINE_GRACE_S

# Makes the server end a failed stream with the error's own status instead of a message without any.
_TRUE_CODES = (("triton_grpc_error", "true"),)

_NO_FINAL = "the server closed it without one"


class GrpcTransport:
    """Blocking gRPC. Safe to share between threads.

    `channel` is one that others use too, instead of one of its own.
    """

    def __init__(self, endpoint: Endpoint, channel: Channel | None = None) -> None:
        self._endpoint = endpoint
        self._channel = open_channel(endpoint) if channel is None else channel
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._calls: set[Any] = set()

    def stream(self, prepared: PreparedRequest) -> Generator[Chunk]:
        """See `Transport.stream`."""
        target = prepared.target
        message = encode_request(prepared)
        call = self._stub.ModelStreamInfer(
            iter((message,)), metadata=_TRUE_CODES, timeout=_client_deadline(prepared.deadline_s)
        )
        final = False
        self._calls.add(call)
        with closing(responses_of(call)) as responses:
            try:
                for response, received_at in responses:
                    chunk = _read(response, target, received_at)
                    final = final or chunk.final
                    yield chunk
            except grpc.RpcError as error:
                raise from_rpc_error(error, self._endpoint, target, prepared.deadline_s) from error
            finally:
                self._calls.discard(call)
        if not final:
            raise StreamTruncatedError(_NO_FINAL, target)

    def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `Transport.infer`."""
        message = encode_tensors(target, tensors, contract.inputs, batched=contract.batched)
        try:
            response = answer_of(self._stub.ModelInfer, message, _client_deadline(deadline_s))
        except grpc.RpcError as error:
            raise from_rpc_error(error, self._endpoint, target, deadline_s) from error
        return decode_tensors(response, target)

    def cancel(self) -> None:
        """From another thread: cancel the streams that run, which end with RequestCancelledError."""
        for call in list(self._calls):
            call.cancel()

    def close(self) -> None:
        """See `Transport.close`."""
        self._channel.close()


class AsyncGrpcTransport:
    """gRPC for one event loop; must be made while the loop runs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._channel = open_async_channel(endpoint)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    async def stream(self, prepared: PreparedRequest) -> AsyncGenerator[Chunk]:
        """See `Transport.stream`."""
        target = prepared.target
        message = encode_request(prepared)
        call = self._stub.ModelStreamInfer(
            iter((message,)), metadata=_TRUE_CODES, timeout=_client_deadline(prepared.deadline_s)
        )
        final = False
        try:
            async for response in call:
                chunk = _read(response, target, perf_counter())
                final = final or chunk.final
                yield chunk
        except grpc.RpcError as error:
            raise from_rpc_error(error, self._endpoint, target, prepared.deadline_s) from error
        finally:
            call.cancel()
        if not final:
            raise StreamTruncatedError(_NO_FINAL, target)

    async def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `Transport.infer`."""
        message = encode_tensors(target, tensors, contract.inputs, batched=contract.batched)
        try:
            response = await self._stub.ModelInfer(message, timeout=_client_deadline(deadline_s))
        except grpc.RpcError as error:
            raise from_rpc_error(error, self._endpoint, target, deadline_s) from error
        return decode_tensors(response, target)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._channel.close()


def _client_deadline(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else deadline_s + DEADLINE_GRACE_S


def _read(response: Any, target: Target, received_at: float) -> Chunk:
    if response.error_message:
        raise _message_error(response.error_message, target)
    return decode_chunk(response.infer_response, target, received_at)


def _message_error(message: str, target: Target) -> ClientError:
    # Requests that never reach a model (unknown name, wrong shape, missing input) are refused without a status,
    # whatever the metadata asked for.
    code = "NOT_FOUND" if message.startswith("Request for unknown model") else "INVALID_ARGUMENT"
    return from_grpc_code(code, message, target)
