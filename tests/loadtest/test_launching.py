"""Locust's processes: however the command ends, none is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from loadtest.errors import LoadTestError
from loadtest.launching import LocustPlan, free_web_port, run_locust
from tests.client.fakes.running import running
from tests.loadtest.run.locust_process import result_in, slow_triton
from tests.waiting import wait_until
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol

HOME = Layout.of_this_checkout().home
PATIENCE_S = 60.0
COMMAND = """
import json, sys
from pathlib import Path
from loadtest import launching
from loadtest.errors import LoadTestError
from loadtest.launching import LocustPlan, run_locust
launching._CONNECT_S = 12
arguments, workers, logs = json.loads(sys.argv[1])
try:
    code = run_locust(LocustPlan(tuple(arguments), workers, None, 0.0), Path(logs), lambda: None)
except KeyboardInterrupt:
    code = 130
except LoadTestError as error:
    print(error)
    code = 2
sys.exit(code)
"""


def started(folder: Path, host: str, *arguments: str, workers: int) -> subprocess.Popen[bytes]:
    given = ["--headless", "--only-summary", "--host", host, "--targets", "slow", "--output-tokens", "2"]
    order = json.dumps([[*given, *arguments, "--out", str(folder / "out")], workers, str(folder)])
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, order],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(HOME)},
            stdout=log,
            stderr=log,
        )


def wait_until_it_runs(folder: Path, command: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Its processes, once requests are answered."""

    def runs() -> bool:
        said = (folder / "log").read_text(encoding="utf-8", errors="replace")
        assert command.poll() is None, said
        return "TTFT p50" in said

    wait_until(runs, PATIENCE_S)
    return psutil.Process(command.pid).children(recursive=True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_an_interruption_keeps_the_results_and_leaves_no_process(tmp_path: Path, workers: int) -> None:
    with running(slow_triton()) as server:
        host = server.endpoint(Protocol.HTTP).url
        command = started(tmp_path, host, "-t", "600", workers=workers)
        processes = wait_until_it_runs(tmp_path, command)
        assert len(processes) == workers + 1
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE_S) == 2
    result = result_in(tmp_path / "out")

    assert not any(process.is_running() for process in processes)
    assert result.targets[0].requests > 0
    assert result.partial[0].endswith(" s of 600 s")
    assert result.client.workers == max(1, workers)


@pytest.mark.slow
def test_a_worker_that_dies_before_it_connects_is_exit_code_2(tmp_path: Path) -> None:
    with running(slow_triton()) as server:
        command = started(tmp_path, server.endpoint(Protocol.HTTP).url, "-t", "600", workers=2)
        wait_until(lambda: len(psutil.Process(command.pid).children()) == 3, PATIENCE_S)
        processes = psutil.Process(command.pid).children()
        max(processes, key=lambda process: process.pid).kill()
        assert command.wait(PATIENCE_S) == 2
    said = (tmp_path / "log").read_text(encoding="utf-8")

    assert "1 of 2 workers connected within 12 s" in said
    assert "worker 2 was killed by SIGKILL. What it wrote last:" in said
    assert "Traceback" not in said
    assert not any(process.is_running() for process in processes)


@pytest.mark.slow
def test_a_worker_that_is_killed_leaves_the_others_results(tmp_path: Path) -> None:
    with running(slow_triton()) as server:
        command = started(tmp_path, server.endpoint(Protocol.HTTP).url, "-t", "15", workers=2)
        processes = wait_until_it_runs(tmp_path, command)
        next(process for process in processes if "--worker" in process.cmdline()).kill()
        assert command.wait(PATIENCE_S) == 2
    result = result_in(tmp_path / "out")

    assert result.targets[0].requests > 0
    assert "was lost after" in result.partial[0]
    assert "was killed by SIGKILL. What it wrote last:" in (tmp_path / "log").read_text(encoding="utf-8")
    assert not any(process.is_running() for process in processes)


@pytest.mark.slow
def test_a_master_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    with running(slow_triton()) as server:
        command = started(tmp_path, server.endpoint(Protocol.HTTP).url, "-t", "600", workers=2)
        processes = wait_until_it_runs(tmp_path, command)
        next(process for process in processes if "--master" in process.cmdline()).kill()
        assert command.wait(PATIENCE_S) == 256 - signal.SIGKILL
    assert not any(process.is_running() for process in processes)


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_process_and_keeps_the_results(tmp_path: Path) -> None:
    with running(slow_triton()) as server:
        command = started(tmp_path, server.endpoint(Protocol.HTTP).url, "-t", "600", workers=2)
        processes = wait_until_it_runs(tmp_path, command)
        command.kill()
        command.wait()
        wait_until(lambda: not any(process.is_running() for process in processes), PATIENCE_S)
    result = result_in(tmp_path / "out")

    assert result.targets[0].requests > 0
    assert result.partial[0].endswith(" s of 600 s")


@pytest.mark.slow
def test_the_exit_code_is_locusts(tmp_path: Path) -> None:
    plan = LocustPlan(("--headless", "--host", "http://127.0.0.1:1", "--targets", "a", "-t", "5"), 0, None, 0.0)

    assert run_locust(plan, tmp_path, lambda: None) == 2


def test_the_web_port_is_free_and_locusts_own_if_that_is() -> None:
    assert 8089 <= free_web_port() < 8139


def test_a_web_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(LoadTestError) as refused:
            free_web_port(port)
    assert str(refused.value) == (
        f"the web UI cannot have port {port} (address already in use): give another with --web-port"
    )
    assert free_web_port(port) == port
