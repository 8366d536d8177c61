"""The process of a stage: what it says, how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.drafting import __main__ as stage
from tools.drafting.__main__ import main

pytestmark = pytest.mark.slow

HOME = Path(__file__).resolve().parents[2]
CLEARING_UP = """
import sys, time
from tools.drafting import __main__ as stage

def run(_):
    try:
        print("running", flush=True)
        time.sleep(600)
    finally:
        print("clearing up", flush=True)
        sys.stdin.readline()
        print("cleared up", flush=True)

stage._run = run
sys.exit(stage.main(["train", "--target", "t", "--work", "w", "--head", "h"]))
"""


@pytest.fixture(autouse=True)
def _signals(monkeypatch: pytest.MonkeyPatch) -> None:
    # A stage takes them for the rest of its process, which here is pytest's.
    monkeypatch.setattr(stage.signal, "signal", lambda *_: None)


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["train", "--target", str(tmp_path), "--work", str(tmp_path / "work"), "--head", str(tmp_path / "h")])
    assert code == 1
    error = capsys.readouterr().err
    assert error.startswith(f'error: "{tmp_path / "config.json"}" cannot be read (')
    assert error.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/full/work")

    monkeypatch.setattr(stage, "_run", full)
    assert main(["accept", "--target", str(tmp_path), "--head", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith('error: "/full/work" cannot be written (No space left on device): free')


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_clearing_up_is_not_interrupted(first: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CLEARING_UP],
        cwd=HOME,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(first)
    assert process.stdout.readline() == "clearing up\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "cleared up\n"
    assert process.wait(60) == 130
