"""The library path of an engine: never tritonserver's, and the user's own where there was one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.backends.process import EngineProcess
from tools.wire.launch import EngineLaunch

_STUB_OF_A_PYTHON = """#!/bin/sh
printf '%s' "${LD_LIBRARY_PATH-none}" > "$SEEN"
"""


@pytest.mark.parametrize(("own", "expected"), [("/usr/local/cuda/lib64", "/usr/local/cuda/lib64"), ("", "none")])
def test_an_engine_gets_the_library_path_that_was_there_before_tritonserver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, expected: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tritonserver/libs:/usr/local/cuda/lib64")
    monkeypatch.setenv("LADDER_ENGINE_LIBRARY_PATH", own)

    assert _library_path_of_an_engine(tmp_path) == expected


def test_an_engine_gets_no_library_path_when_nothing_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/tritonserver/libs")
    monkeypatch.delenv("LADDER_ENGINE_LIBRARY_PATH", raising=False)

    assert _library_path_of_an_engine(tmp_path) == "none"


def _library_path_of_an_engine(folder: Path) -> str:
    python = folder / "python"
    python.write_text(_STUB_OF_A_PYTHON, encoding="utf-8")
    python.chmod(0o755)
    seen = folder / "seen"
    launch = EngineLaunch(
        adapter="mock",
        model="m",
        version="1",
        socket=str(folder / "socket"),
        model_directory=str(folder),
        arguments={},
        parameters={},
        metrics=False,
    )
    process = EngineProcess(str(python), root=folder, home=folder, launch=launch, environment={"SEEN": str(seen)})
    process.wait()
    return seen.read_text(encoding="utf-8")
