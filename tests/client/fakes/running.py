"""A FakeTriton behind both front ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.client.fakes.grpc_front import serve_grpc
from tests.client.fakes.http_front import serve_http
from tests.client.fakes.triton import FakeTriton
from tools.client.address import ServerAddress


@contextmanager
def running(triton: FakeTriton) -> Iterator[ServerAddress]:
    """Serve both protocols for the length of the block."""
    with serve_grpc(triton) as grpc_port, serve_http(triton) as http_port:
        yield ServerAddress("127.0.0.1", http_port, grpc_port, 0)
