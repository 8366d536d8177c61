"""What the client needs of a protocol, and nothing about any of them."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, Protocol

from tools.client.completion import Chunk
from tools.client.contract import ModelContract, PreparedRequest, TensorValues
from tools.client.request import Target

# Server and client are given the same deadline; the server's verdict, which says more, should win the race.
DEADLINE_GRACE_S = 1.0


class Transport(Protocol):
    """One connection to a server, blocking."""

    def stream(self, prepared: PreparedRequest) -> Generator[Chunk]:
        """Send the request and yield its responses; closing the generator early cancels the request on the server.

        Raises:
            ClientError: any failure, also one after the first chunks.
        """

    def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """Ask a model that answers once, and return its flat outputs by name.

        Raises:
            ClientError: any failure.
        """

    def close(self) -> None:
        """Close the connection."""


class AsyncTransport(Protocol):
    """One connection to a server, for asyncio. Same contract as `Transport`."""

    def stream(self, prepared: PreparedRequest) -> AsyncGenerator[Chunk]:
        """See `Transport.stream`; cancelling the task cancels the request on the server."""

    async def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `Transport.infer`."""

    async def close(self) -> None:
        """Close the connection."""
