from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tools.bootstrap.ports import HIGHEST_BASE, holder_of
from tools.serving.errors import ServingError
from tools.serving.ports import require_free

BASE = 18214


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", BASE + 1))
        listener.listen()
        yield BASE + 1


def test_a_busy_port_is_refused_with_the_process_that_holds_it(busy: int) -> None:
    with pytest.raises(ServingError) as refusal:
        require_free(BASE)
    lines = str(refusal.value).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"port {busy} (gRPC) is held by ")
    assert lines[0].endswith(f"(process {os.getpid()})")
    assert lines[1] == "end it, or serve on other ports: ./ladder up --port-base 8100"


def test_free_ports_are_taken() -> None:
    require_free(BASE)


@pytest.mark.parametrize("base", [0, -1, HIGHEST_BASE + 1])
def test_a_port_base_without_room_for_three_ports_is_refused(base: int) -> None:
    with pytest.raises(ServingError, match=f"--port-base {base} is out of range: choose one from 1 to 65533"):
        require_free(base)


def test_a_port_that_nobody_listens_on_has_no_holder() -> None:
    assert holder_of(BASE) == "a connection that is closing"
