"""Requests over gRPC: ModelStreamInfer for answers, ModelInfer for models that answer once.

The generated stub is used rather than tritonclient's InferenceServerClient: one call per request gives each request its
own cancellation and its own clock.

A stream is read to its end, after an error too: a cancellation that meets the end makes tritonserver 2.51 lose the
request, and a model with a lost request never finishes unloading.
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
from tools.client.errors import ClientError, StreamTruncatedError, from_grpc_code, said_by_model
from tools.client.grpc_channel import Channel, from_rpc_error, open_async_channel, open_channel
from tools.client.grpc_codec import decode_chunk, decode_tensors, encode_request, encode_tensors
from tools.client.grpc_waiting import answer_of, responses_of
from tools.client.request import Target
from tools.client.transport import DEADLINE_GRACE_S

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
        call = self._stub.ModelStreamInfer(iter((message,)), timeout=_client_deadline(prepared.deadline_s))
        final = False
        failure: ClientError | None = None
        self._calls.add(call)
        with closing(responses_of(call)) as responses:
            try:
                for response, received_at in responses:
                    failure = failure or _failure(response, target)
                    if failure is None:
                        chunk = decode_chunk(response.infer_response, target, received_at)
                        final = final or chunk.final
                        yield chunk
            except grpc.RpcError as error:
                raise failure or from_rpc_error(error, self._endpoint, target, prepared.deadline_s) from error
            finally:
                self._calls.discard(call)
        if failure is not None:
            raise failure
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
        call = self._stub.ModelStreamInfer(iter((message,)), timeout=_client_deadline(prepared.deadline_s))
        final = False
        failure: ClientError | None = None
        try:
            async for response in call:
                failure = failure or _failure(response, target)
                if failure is None:
                    chunk = decode_chunk(response.infer_response, target, perf_counter())
                    final = final or chunk.final
                    yield chunk
        except grpc.RpcError as error:
            raise failure or from_rpc_error(error, self._endpoint, target, prepared.deadline_s) from error
        finally:
            call.cancel()
        if failure is not None:
            raise failure
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


def _failure(response: Any, target: Target) -> ClientError | None:
    message = response.error_message
    if not message:
        return None
    # A stream's error is a text alone. The ladder's models end it with the code; one without is tritonserver's own, of
    # a request that never reached a model: unknown name, wrong shape, missing input.
    if said := said_by_model(message, target):
        return said
    code = "NOT_FOUND" if message.startswith("Request for unknown model") else "INVALID_ARGUMENT"
    return from_grpc_code(code, message, target)
