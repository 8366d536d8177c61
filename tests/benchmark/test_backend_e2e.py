"""`./ladder bench backend` on a real tritonserver."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.serving.ladder import HOME, assert_nothing_left, ladder, wait_for
from tools.benchmark.backend import BackendReport

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(300)]

BASE = 18524
PORT = ("--port-base", str(BASE))


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for temporary files whose path leaves room for the names of sockets; pytest's own is too long."""
    with tempfile.TemporaryDirectory(prefix="lb-") as name:
        yield Path(name)


def test_it_measures_every_concurrency_and_leaves_nothing() -> None:
    small = ("--streams", "1,8", "--tokens", "40", "--seconds", "0.3", "--repeats", "2", "--json")
    result = ladder("bench", "backend", *PORT, *small)
    assert result.returncode == 0, result.stderr
    report = BackendReport.model_validate_json(result.stdout)
    assert [row.streams for row in report.rows] == [1, 8]
    for row in report.rows:
        assert len(row.tokens_per_s.values) == 2
        assert row.responses_per_s.low > 0
        # A response has at least one token, and no request has more than 40.
        assert 1 <= row.tokens_per_response.low <= row.tokens_per_response.high <= 40
        assert set(row.cpu_us_per_token) == {"stub", "server", "engine", "client"}
    assert report.machine.versions["tritonserver"] == "2.51.0"
    assert_nothing_left(BASE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(tmp_path: Path, short_folder: Path, number: signal.Signals) -> None:
    log = tmp_path / "bench.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [HOME / "ladder", "bench", "backend", *PORT, "--streams", "8", "--seconds", "100"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(short_folder)},
            start_new_session=True,
        )
    assert wait_for(lambda: "repeat 1 of 3" in log.read_text(encoding="utf-8"), 120), log.read_text(encoding="utf-8")
    time.sleep(0.5)
    children = psutil.Process(process.pid).children(recursive=True)
    assert any("tools.benchmark.flood" in child.cmdline() for child in children)
    process.send_signal(number)
    assert process.wait(60) == 130
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert list(short_folder.iterdir()) == []
    assert_nothing_left(BASE)


def test_more_tokens_than_the_profile_allows_is_said_by_the_model() -> None:
    result = ladder("bench", "backend", *PORT, "--streams", "1", "--tokens", "5000")
    assert result.returncode == 1
    assert '"llm_bf16" failed a request' in result.stderr
    assert "max_tokens" in result.stderr
    assert_nothing_left(BASE)
