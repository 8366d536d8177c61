from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.client.fakes.running import running
from tests.client.fakes.triton import FakeModel, FakeTriton
from tools.client.address import Endpoint, Protocol, ServerAddress

Serve = Callable[..., tuple[FakeTriton, ServerAddress]]


@pytest.fixture(params=list(Protocol), ids=str)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    """Both protocols in turn: what holds for one holds for the other."""
    return request.param


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fake servers with the given models; all end with the test."""
    with ExitStack() as servers:

        def start(*models: FakeModel) -> tuple[FakeTriton, ServerAddress]:
            triton = FakeTriton(*models)
            return triton, servers.enter_context(running(triton))

        yield start


@pytest.fixture
def nowhere(protocol: Protocol) -> Endpoint:
    """An endpoint at which nothing listens."""
    return Endpoint(protocol, "127.0.0.1", 1)
