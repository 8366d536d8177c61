"""One server for all tests of this folder: the committed repositories, and a few models that only tests load.

While you write tests, keep a server of your own instead of starting one at each run:
`LADDER_E2E_PORT_BASE=8400 ./ladder test tests/e2e/...` starts it there if nothing runs, and leaves it running;
`./ladder down --port-base 8400` ends it, which it takes for a change in tools/backends or tools/engine to be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.asking import Triton
from tests.e2e.deployment import Deployment, reuse_or_start, serving
from tools.client.address import Protocol
from tools.client.client import Client

PORT_BASE_VARIABLE = "LADDER_E2E_PORT_BASE"
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the server; its start counts as part of the first test."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="package")
def server() -> Iterator[Deployment]:
    """The server, with all rungs of the default profile ready."""
    port_base = os.environ.get(PORT_BASE_VARIABLE)
    if port_base:
        yield reuse_or_start(int(port_base))
        return
    with serving() as deployment:
        yield deployment


@pytest.fixture(autouse=True)
def _no_test_after_the_servers_end(request: pytest.FixtureRequest, server: Deployment) -> Iterator[None]:
    """Every later test would only say that nobody listens; what the server said last is what matters."""
    yield
    if server.has_ended():
        request.session.shouldfail = f"tritonserver ended during this test\n{server.log[-4000:]}"


@pytest.fixture(scope="package")
def triton(server: Deployment) -> Iterator[Triton]:
    """Raw requests to the server."""
    with Triton(server.address) as triton:
        yield triton


@pytest.fixture(scope="package")
def client(server: Deployment) -> Iterator[Client]:
    """The project's own client, over gRPC."""
    with Client(server.address.endpoint(Protocol.GRPC)) as client:
        yield client
