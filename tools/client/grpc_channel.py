"""gRPC channels to tritonserver, and the errors their calls end with."""

from typing import Any, TypeAlias

import grpc
import grpc.aio

from tools.client.address import Endpoint
from tools.client.errors import (
    ClientError,
    ServerUnreachableError,
    StreamTruncatedError,
    deadline_passed,
    from_grpc_code,
)
from tools.client.request import Target
from tools.client.tls import root_certificates
from tools.wire.error_codes import split_code

# grpc ships without types.
Channel: TypeAlias = Any

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A proxy from the environment has no business between us and a server that is named by address.
    ("grpc.enable_http_proxy", 0),
    # Retrying behind the caller's back would falsify every measured latency.
    ("grpc.enable_retries", 0),
)

# How the C core words a connection that was never made, and one that broke. Its status for both is UNAVAILABLE, but so
# is that of a model whose queue is full.
_NEVER_CONNECTED = "failed to connect to all addresses"
_CONNECTION_BROKE = ("Socket closed", "Connection reset by peer", "Broken pipe", "GOAWAY received", "Stream removed")
# The client side's own verdict; a model's says more and is passed on.
_OWN_DEADLINE = "Deadline Exceeded"


def open_channel(endpoint: Endpoint) -> Channel:
    """A blocking channel; nothing is sent before the first call."""
    if endpoint.tls:
        return grpc.secure_channel(
            endpoint.authority, grpc.ssl_channel_credentials(root_certificates(endpoint)), options=_OPTIONS
        )
    return grpc.insecure_channel(endpoint.authority, options=_OPTIONS)


def open_async_channel(endpoint: Endpoint, *options: tuple[str, int]) -> Channel:
    """A channel for the running event loop; `options` are gRPC's, in addition to the client's own."""
    if endpoint.tls:
        return grpc.aio.secure_channel(
            endpoint.authority, grpc.ssl_channel_credentials(root_certificates(endpoint)), options=(*_OPTIONS, *options)
        )
    return grpc.aio.insecure_channel(endpoint.authority, options=(*_OPTIONS, *options))


def from_rpc_error(error: Any, endpoint: Endpoint, target: Target | None, deadline_s: float | None) -> ClientError:
    """The client's error for a `grpc.RpcError` of a call that was given `deadline_s`."""
    details = error.details() or "no details"
    if deadline_s is not None and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED and _OWN_DEADLINE in details:
        return deadline_passed(deadline_s, target)
    if details.startswith(_NEVER_CONNECTED):
        return ServerUnreachableError(endpoint, details.rpartition(": ")[2], target)
    if error.code() is grpc.StatusCode.UNAVAILABLE and any(phrase in details for phrase in _CONNECTION_BROKE):
        return StreamTruncatedError(f"the connection broke: {details}", target)
    return from_grpc_code(error.code().name, split_code(details)[0], target)
