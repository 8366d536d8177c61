"""The real tritonserver, asked for its options."""

from __future__ import annotations

import os
import subprocess

import pytest

from tools.bootstrap.layout import Layout
from tools.serving.backend_directory import ServerSoftware


@pytest.fixture
def tritonserver_help() -> str:
    """What `tritonserver --help` prints."""
    software = ServerSoftware.of(Layout.of_this_checkout())
    libraries = os.pathsep.join(map(str, software.libraries))
    done = subprocess.run(
        [str(software.binary), "--help"], env={**os.environ, "LD_LIBRARY_PATH": libraries},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
