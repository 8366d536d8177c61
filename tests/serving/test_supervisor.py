"""The supervisor with a stand-in for tritonserver: whoever is killed, nothing of the instance is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.serving.instance import Instance, InstanceFiles, new_id
from tools.serving.stopping import clear_leftovers, stop
from tools.serving.supervisor import DETACH, EXIT_OCCUPIED, EXIT_SERVER_DIED, EXIT_STOPPED, EXIT_UNWRITABLE, Order
from tools.serving.sweep import VARIABLE, processes_of

PORT_BASE = 18210

# Starts a process in a session of its own, as an engine is, and then waits for its end.
SERVER = """
import subprocess, sys, time
subprocess.Popen(["sleep", "300"], start_new_session=True)
print("serving", flush=True)
time.sleep(300)
"""
STUBBORN_SERVER = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER


class Supervised:
    """A supervisor process started for a test."""

    def __init__(self, folder: Path, server: str, *, disk_is_full: bool = False) -> None:
        identity = new_id(PORT_BASE)
        self.files = InstanceFiles(folder)
        self.sockets = folder.parent / f"sockets-{identity}"
        self.instance = Instance(identity, PORT_BASE, "p", ("r",), (), str(self.sockets))
        folder.mkdir(exist_ok=True)
        order = Order(
            self.instance, str(folder), (sys.executable, "-c", server), {**os.environ, VARIABLE: self.instance.id}
        )
        command = [sys.executable, "-I", str(Layout.of_this_checkout().home / "tools" / "serving")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        assert self.process.stdin
        if disk_is_full:
            self.fill_the_disk()
        self.lifeline = self.process.stdin
        self.lifeline.write(order.to_line())
        self.lifeline.flush()

    def fill_the_disk(self) -> None:
        """Makes every further write of the supervisor into a file fail."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, 0))

    def state(self) -> Instance | None:
        return Instance.read(self.files)

    def wait_until_serving(self) -> Instance:
        wait_until(lambda: self.files.server_log.exists() and "serving" in self.files.server_log.read_text("utf-8"))
        state = self.state()
        assert state is not None
        return state

    def processes(self) -> list[int]:
        return list(processes_of(self.instance.id))

    def assert_nothing_left(self) -> None:
        assert self.processes() == []
        assert not self.sockets.exists()


Start = Callable[..., Supervised]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Supervised] = []

    def start(server: str = SERVER, *, disk_is_full: bool = False) -> Supervised:
        started.append(Supervised(tmp_path / str(PORT_BASE), server, disk_is_full=disk_is_full))
        return started[-1]

    yield start
    for supervised in started:
        supervised.process.kill()
        supervised.process.wait()
        clear_leftovers(supervised.files)
        for pid in supervised.processes():
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.slow
def test_the_state_file_says_what_runs(start: Start) -> None:
    supervised = start()
    state = supervised.wait_until_serving()
    assert (state.phase, state.supervisor, state.detached) == ("running", supervised.process.pid, False)
    assert state.server in supervised.processes()
    assert supervised.sockets.stat().st_mode & 0o777 == 0o700
    assert supervised.files.supervised()


@pytest.mark.slow
def test_the_end_of_the_command_that_started_it_stops_the_server(start: Start) -> None:
    supervised = start()
    supervised.wait_until_serving()
    supervised.lifeline.close()
    assert supervised.process.wait(20) == EXIT_STOPPED
    supervised.assert_nothing_left()
    assert supervised.state() is None


@pytest.mark.slow
def test_a_detached_server_outlives_the_command(start: Start) -> None:
    supervised = start()
    supervised.wait_until_serving()
    supervised.lifeline.write(DETACH)
    supervised.lifeline.close()
    wait_until(lambda: (state := supervised.state()) is not None and state.detached)
    assert supervised.process.poll() is None
    assert len(supervised.processes()) == 2
    assert stop(supervised.files, lambda _: None)
    assert supervised.process.wait(20) == EXIT_STOPPED
    supervised.assert_nothing_left()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_server(start: Start, number: signal.Signals) -> None:
    supervised = start()
    supervised.wait_until_serving()
    supervised.process.send_signal(number)
    assert supervised.process.wait(20) == EXIT_STOPPED
    supervised.assert_nothing_left()


def test_nothing_is_started_where_nothing_can_be_written(start: Start) -> None:
    supervised = start(disk_is_full=True)
    assert supervised.process.wait(20) == EXIT_UNWRITABLE
    supervised.assert_nothing_left()
    assert [file.name for file in supervised.files.folder.iterdir()] == ["lock"]


@pytest.mark.slow
def test_a_disk_that_fills_up_does_not_keep_a_server_from_ending_in_order(start: Start) -> None:
    supervised = start()
    supervised.wait_until_serving()
    wait_until(lambda: (state := supervised.state()) is not None and state.phase == "running")
    supervised.fill_the_disk()
    supervised.lifeline.close()
    assert supervised.process.wait(20) == EXIT_STOPPED
    supervised.assert_nothing_left()
    assert supervised.state() is None


@pytest.mark.slow
def test_a_killed_server_is_reported_and_cleared_away(start: Start) -> None:
    supervised = start()
    os.kill(supervised.wait_until_serving().server, signal.SIGKILL)
    assert supervised.process.wait(20) == EXIT_SERVER_DIED
    state = supervised.state()
    assert state is not None
    assert state.phase == "failed"
    assert state.reason == ("tritonserver was killed by SIGKILL: by hand, or for want of memory (dmesg | grep -i oom)")
    supervised.assert_nothing_left()


def test_a_server_that_ends_by_itself_is_reported_with_its_exit_code(start: Start) -> None:
    supervised = start("raise SystemExit(7)")
    assert supervised.process.wait(20) == EXIT_SERVER_DIED
    state = supervised.state()
    assert state is not None
    assert state.reason == "tritonserver ended with exit code 7"


@pytest.mark.slow
def test_a_killed_supervisor_takes_the_server_with_it(start: Start) -> None:
    supervised = start()
    server = supervised.wait_until_serving().server
    supervised.process.kill()
    supervised.process.wait()
    wait_until(lambda: server not in supervised.processes())
    # What the server had started lives on until the next command clears it away.
    assert len(supervised.processes()) == 1
    clear_leftovers(supervised.files)
    supervised.assert_nothing_left()
    assert supervised.state() is None


@pytest.mark.slow
def test_the_next_supervisor_clears_away_what_a_killed_one_left(start: Start) -> None:
    first = start()
    first.wait_until_serving()
    first.process.kill()
    first.process.wait()
    second = start()
    wait_until(lambda: (state := second.state()) is not None and state.id == second.instance.id)
    first.assert_nothing_left()
    assert second.process.poll() is None


@pytest.mark.slow
def test_a_server_that_does_not_end_is_killed_when_asked_again(start: Start) -> None:
    supervised = start(STUBBORN_SERVER)
    supervised.wait_until_serving()
    supervised.process.terminate()
    wait_until(lambda: (state := supervised.state()) is not None and state.phase == "stopping")
    assert supervised.process.poll() is None
    supervised.process.terminate()
    assert supervised.process.wait(20) == EXIT_STOPPED
    supervised.assert_nothing_left()


@pytest.mark.slow
def test_two_supervisors_cannot_share_a_port_base(start: Start) -> None:
    first = start()
    state = first.wait_until_serving()
    second = start()
    assert second.process.wait(20) == EXIT_OCCUPIED
    assert first.state() == state
