from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tools.benchmark.deployment import free_port_base
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import try_lock
from tools.serving.errors import ServingError
from tools.serving.instance import InstanceFiles

FIRST = 18510


def test_a_base_whose_ports_are_busy_is_passed_over(tmp_path: Path) -> None:
    assert free_port_base(Layout(tmp_path), FIRST) == FIRST
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", FIRST + 2))
        busy.listen()
        assert free_port_base(Layout(tmp_path), FIRST) == FIRST + 10


def test_a_base_where_a_server_is_being_started_is_passed_over(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    files = InstanceFiles.at(FIRST, layout)
    files.folder.mkdir(parents=True)
    held = try_lock(files.lock)
    assert held is not None
    assert free_port_base(layout, FIRST) == FIRST + 10


def test_without_a_free_base_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match="no free ports from 65600 on: give one with --port-base"):
        free_port_base(Layout(tmp_path), 65600)
