"""What a keeper does when nothing can be written any more: servers that run go on. The rest is test_fleet_e2e.py's."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.fleet.conftest import plan
from tools.bootstrap.layout import Layout
from tools.fleet import keeper as module
from tools.fleet.files import FleetFiles, FleetState
from tools.fleet.keeper import Keeper


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(module.proxy, "binary", lambda layout: Path("envoy"))
    return Layout(tmp_path)


def test_a_disk_that_is_full_for_a_while_is_told_of_once_and_ends_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    keeper = Keeper(plan(9100, canary=1), layout, told.append)
    files = FleetFiles.at(9100, layout)

    def full(state: FleetState, files: FleetFiles) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(files.state))

    with monkeypatch.context() as disk:
        disk.setattr(FleetState, "write", full)
        keeper._write_if_possible()
        keeper._write_if_possible()
    assert told == [
        f'the fleet goes on, but its state cannot be written: "{files.state}": No space left on device: free some space'
    ]
    keeper._write_if_possible()
    found = FleetState.read(files)
    assert found is not None
    assert [server.name for server in found.servers] == ["stable-0", "stable-1", "canary-0"]


def test_what_cannot_be_told_is_no_error_of_a_server(layout: Layout) -> None:
    def full(line: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    keeper = Keeper(plan(9100, canary=1), layout, full)
    for process in (keeper._proxy, *keeper._servers):
        process._tell("ready")
