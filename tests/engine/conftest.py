from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def socket() -> Iterator[str]:
    """Path of an engine's sockets, short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lt-"))
    yield str(directory / "engine")
    shutil.rmtree(directory)
