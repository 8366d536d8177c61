"""The stub's code imports `triton_python_backend_utils`: here that is the stand-in, before any test is read."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures import fake_pb_utils

sys.modules["triton_python_backend_utils"] = fake_pb_utils


@pytest.fixture(autouse=True)
def _fresh_triton() -> None:
    fake_pb_utils.forget()


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory whose path is short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lt-"))
    yield directory
    shutil.rmtree(directory)
