"""`./ladder report` that is ended in the middle of a cell: nothing is left running, and it goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.client.fakes.running import running
from tests.client.fakes.triton import FakeTriton, Say, Seen, Step, engine, tokenizer
from tests.waiting import wait_until
from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import is_held
from tools.client.address import ServerAddress
from tools.reporting.folder import read_report

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
# The test brings its own server: nothing is looked up there. Without it, servers of other tests would be.
PORT_BASE = ("--port-base", "9100")
COMMAND = """
import sys
from tools.cli import report
from tools.cli.app import application
from tools.client.address import ServerAddress
from tools.reporting.serving import RunningServer
from tools.reporting.session import Serving

http, grpc = map(int, sys.argv[1:3])

def running(_, settings):
    def serving(rungs):
        server = RunningServer(ServerAddress("127.0.0.1", http, grpc, 1), settings.protocol)
        return server, server.require(rungs)
    return serving

report.running = running
application("report")(["report", *sys.argv[3:]])
"""


class Server:
    """Its model says two tokens, the second `seconds` later."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.triton = FakeTriton(engine("llm_bf16", script=self._script), tokenizer())

    def _script(self, seen: Seen) -> Sequence[Step]:
        time.sleep(self.seconds)
        first, last = Say("Hello ", input_tokens=3), Say("there", finish="length", input_tokens=3, final=True)
        return [first, last] if seen.inputs["stream"][0] else [Say("Hello there", tokens=2, finish="length")]


def start(folder: Path, address: ServerAddress, workers: int) -> subprocess.Popen[bytes]:
    home = Layout.of_this_checkout().home
    load = ("--concurrency", "1,2", "--output-tokens", "2", "--min-requests", "4", "--repeats", "1")
    load += ("--workers", str(workers))
    ports = (str(address.http_port), str(address.grpc_port), *PORT_BASE)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *ports, "--rungs", "v2", *load, "--out", str(folder / "report")],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(home)},
            stdout=log,
            stderr=log,
        )


def await_while_it_runs(report: subprocess.Popen[bytes], holds: Callable[[], object], log: Path) -> None:
    """Fails with the report's own words when it ends before `holds()` is true."""
    wait_until(lambda: report.poll() is not None or holds(), PATIENCE_S, words=log.read_text)
    assert report.poll() is None, log.read_text()


@pytest.mark.parametrize(
    ("number", "code", "workers"),
    [
        (signal.SIGINT, 130, 0),
        (signal.SIGTERM, 130, 0),
        (signal.SIGKILL, -signal.SIGKILL, 0),
        (signal.SIGTERM, 130, 2),
        (signal.SIGKILL, -signal.SIGKILL, 2),
    ],
)
def test_an_ended_report_leaves_no_process_and_goes_on(
    tmp_path: Path, number: signal.Signals, code: int, workers: int
) -> None:
    server = Server()
    with running(server.triton) as address:
        report = start(tmp_path, address, workers)
        # In the middle of the second of two cells.
        await_while_it_runs(report, (tmp_path / "report/cells/v2-1-1/cell.json").exists, tmp_path / "log")
        server.seconds = 3.0
        asked = len(server.triton.seen)
        await_while_it_runs(report, lambda: len(server.triton.seen) > asked, tmp_path / "log")
        processes = psutil.Process(report.pid).children(recursive=True)
        assert len(processes) == 1 + workers
        report.send_signal(number)
        assert report.wait(PATIENCE_S) == code
        wait_until(lambda: not any(process.is_running() for process in processes), PATIENCE_S)
        assert not is_held(tmp_path / "report/cells/lock")
        assert not (tmp_path / "report/cells/v2-2-1/cell.json").exists()

        server.seconds = 0.0
        assert start(tmp_path, address, workers).wait(PATIENCE_S) == 0, (tmp_path / "log").read_text(encoding="utf-8")
    made, _ = read_report(tmp_path / "report")
    assert [(cell.level, cell.state, cell.reused) for cell in made.cells] == [
        (1, "measured", True),
        (2, "measured", False),
    ]
