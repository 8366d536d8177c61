"""The stub's code imports `triton_python_backend_utils`: here that is the stand-in, before any test is read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures import fake_pb_utils

ROOT = Path(__file__).resolve().parents[2]

sys.modules["triton_python_backend_utils"] = fake_pb_utils


@pytest.fixture(autouse=True)
def _fresh_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pb_utils.forget()
    # How often a link looks up while nothing comes: it saves each test with an engine half a second.
    monkeypatch.setattr("tools.backends.link._HELLO_INTERVAL_MS", 10)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose path is short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lt-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def places(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment that `ladder up` gives to tritonserver; returns the directory for sockets."""
    monkeypatch.setenv("LADDER_SOCKETS", str(sockets))
    monkeypatch.setenv("LADDER_ENGINE_PYTHON", sys.executable)
    monkeypatch.setenv("LADDER_HOME", str(ROOT))
    return sockets
