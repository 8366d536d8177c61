"""KServe's ModelStreamInfer over gRPC.

gRPC for Python waits in the event loop's thread pool under gevent, and each channel keeps one of its ten threads for
good, so all transports of a process share one channel a server; a channel each would stand still from the tenth on.
Waiting there is dear: a response of one token takes 165 us of this process's CPU at 48 streams (235 at 8), against 34
for a server-sent event. So one core keeps up with about 6,000 responses a second; beyond that take workers.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar
from weakref import WeakValueDictionary, finalize

from gevent import monkey
from grpc.experimental.gevent import init_gevent

from tools.client.address import Endpoint
from tools.client.completion import Chunk
from tools.client.contract import ModelContract, PreparedRequest, TensorValues
from tools.client.errors import RequestCancelledError
from tools.client.grpc_channel import Channel, open_channel
from tools.client.grpc_transport import GrpcTransport
from tools.client.request import Target


@cache
def let_grpc_wait() -> None:
    """Have gRPC yield to other greenlets while it waits, where the process runs under gevent; before its first call."""
    if monkey.is_module_patched("socket"):
        init_gevent()


class _SharedChannel:
    """The channel of all transports to one server; closed when the last of them lets go of it."""

    _open: ClassVar[WeakValueDictionary[Endpoint, _SharedChannel]] = WeakValueDictionary()

    def __init__(self, endpoint: Endpoint) -> None:
        let_grpc_wait()
        self.channel: Channel = open_channel(endpoint)
        finalize(self, self.channel.close)

    @classmethod
    def to(cls, endpoint: Endpoint) -> _SharedChannel:
        shared = cls._open.get(endpoint)
        if shared is None:
            shared = cls._open[endpoint] = cls(endpoint)
        return shared


class GrpcConnection:
    """See `Connection`: one call at a time on the process's channel to the server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._shared: _SharedChannel | None = _SharedChannel.to(endpoint)
        self._grpc = GrpcTransport(endpoint, self._shared.channel)
        self._interrupted = False

    def stream(self, prepared: PreparedRequest) -> Generator[Chunk]:
        """See `tools.client.transport.Transport.stream`."""
        if self._interrupted:
            raise RequestCancelledError("CANCELLED", "interrupted", prepared.target)
        yield from self._grpc.stream(prepared)

    def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `tools.client.transport.Transport.infer`."""
        return self._grpc.infer(target, contract, tensors, deadline_s)

    def interrupt(self) -> None:
        """See `Connection.interrupt`."""
        self._interrupted = True
        self._grpc.cancel()

    def close(self) -> None:
        """Let go of the channel."""
        self._shared = None
