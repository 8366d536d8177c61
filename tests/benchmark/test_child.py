"""Measuring processes: what they answer, and that none is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.process_groups import processes_of
from tools.benchmark.child import Child
from tools.benchmark.errors import BenchmarkError
from tools.benchmark.workload import Load, Tally

LOAD = Load(streams=1, tokens=2)
TALLY = Tally(seconds=1.0, tokens=2, responses=1, ttft_s=(0.5,))


def child(script: str, folder: Path) -> Child:
    return Child([sys.executable, "-I", "-c", script], folder, os.environ, folder / "child.log")


def test_each_order_gets_its_tally(tmp_path: Path) -> None:
    answer = TALLY.model_dump_json()
    script = f"import sys\nfor line in sys.stdin:\n  assert 'streams' in line\n  print({answer!r}, flush=True)"
    with child(script, tmp_path) as measuring:
        assert measuring.measure(LOAD, 20) == TALLY
        assert measuring.measure(LOAD, 20) == TALLY


def test_trouble_is_raised_and_the_process_goes_on(tmp_path: Path) -> None:
    script = """import sys
for line in sys.stdin:
    print('{"error":"the model failed"}', flush=True)"""
    with child(script, tmp_path) as measuring:
        for _ in range(2):
            with pytest.raises(BenchmarkError, match=r"^the model failed$"):
                measuring.measure(LOAD, 20)


def test_an_end_without_answer_shows_the_last_lines(tmp_path: Path) -> None:
    script = "import sys; sys.stdin.readline(); sys.exit('no such engine')"
    with child(script, tmp_path) as measuring, pytest.raises(BenchmarkError, match=r"ended\..*\n  no such engine"):
        measuring.measure(LOAD, 20)


def test_one_that_has_ended_before_it_is_asked_is_no_broken_pipe(tmp_path: Path) -> None:
    with child("raise SystemExit('gone')", tmp_path) as measuring:
        measuring._process.wait(20)
        with pytest.raises(BenchmarkError, match="gone"):
            measuring.measure(LOAD, 20)


@pytest.mark.slow
def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    silent = pytest.raises(BenchmarkError, match=r"did not answer within 0\.2 s")
    with child("import time; time.sleep(600)", tmp_path) as measuring, silent:
        measuring.measure(LOAD, 0.2)
    assert measuring._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_nothing_is_left_afterwards(tmp_path: Path, error: type[BaseException] | None) -> None:
    # It starts another process, as an engine does, and that one ignores the end of its input.
    script = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'])\n"
        "sys.stdin.readline()\n"
        "print('started', flush=True)\n"
        "sys.stdin.read()"
    )
    group = 0
    try:
        with child(script, tmp_path) as measuring:
            assert measuring.ask("", 20) == "started\n"
            group = measuring._process.pid
            assert len(processes_of(group)) == 2
            if error:
                raise error
    except KeyboardInterrupt:
        pass
    deadline = time.monotonic() + 10
    while processes_of(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes_of(group) == []
