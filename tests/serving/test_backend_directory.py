"""The folder of backends, made by several servers of one process at the same time."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.serving import backend_directory
from tools.serving.backend_directory import ServerSoftware, build

SERVERS = 4


def test_servers_that_start_side_by_side_make_it_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "software" / "python"
    python.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py", "stub"):
        (python / name).write_text(name, encoding="utf-8")
    software = ServerSoftware(tmp_path, python.parent, python / "stub", (), tmp_path)
    layout = Layout(tmp_path / "checkout")
    # All of them have their drafts before any draft gets its name.
    together, copied = threading.Barrier(SERVERS), shutil.copy2

    def copy(source: Path, draft: Path) -> None:
        copied(source, draft)
        together.wait(10)

    monkeypatch.setattr(backend_directory.shutil, "copy2", copy)
    monkeypatch.setattr(backend_directory.filecmp, "cmp", lambda *_: False)
    with ThreadPoolExecutor(SERVERS) as servers:
        built = [server.result() for server in [servers.submit(build, software, layout) for _ in range(SERVERS)]]
    assert set(built) == {layout.backends}
    assert sorted(path.name for path in layout.backends.rglob("*")) == [
        "libtriton_python.so", "model.py", "python", "stub", "triton_python_backend_utils.py", "vllm",
    ]  # fmt: skip
