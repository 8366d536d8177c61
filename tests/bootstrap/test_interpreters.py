from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.bootstrap import interpreters
from tools.bootstrap.errors import BootstrapError

ANSWER = '{{"executable": "{path}", "version": [3, {minor}, 1], "folders": ["{folder}"], "multiarch": null}}'


def fake_python(folder: Path, minor: int, *, with_library: bool) -> Path:
    """An executable that answers the probe as a Python 3.`minor` would."""
    library = folder / f"lib{minor}"
    library.mkdir(parents=True)
    if with_library:
        (library / f"libpython3.{minor}.so.1.0").touch()
    python = folder / f"python3.{minor}"
    answer = ANSWER.format(path=python, minor=minor, folder=library)
    python.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def test_the_interpreter_in_use_is_described() -> None:
    found = interpreters.inspect(Path(sys.executable))
    assert found is not None
    assert found.version == sys.version_info[:3]


@pytest.mark.parametrize("minor", [10, 14])
def test_versions_that_do_not_fit_are_passed_over(tmp_path: Path, minor: int) -> None:
    assert interpreters.inspect(fake_python(tmp_path, minor, with_library=True)) is None


def test_what_does_not_run_is_no_interpreter(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    assert interpreters.inspect(shim) is None
    assert interpreters.inspect(tmp_path / "missing") is None


def test_the_server_takes_the_first_interpreter_with_a_shared_libpython(tmp_path: Path) -> None:
    without = fake_python(tmp_path / "a", 11, with_library=False)
    having = fake_python(tmp_path / "b", 12, with_library=True)
    found = interpreters.for_server([without, having])
    assert found.executable == having
    assert found.libpython == tmp_path / "b" / "lib12"


def test_python_3_13_needs_no_libpython_of_its_own(tmp_path: Path) -> None:
    python = fake_python(tmp_path, 13, with_library=False)
    assert interpreters.for_server([python]).executable == python


def test_without_any_libpython_the_error_names_what_was_tried_and_what_to_install(tmp_path: Path) -> None:
    pythons = [fake_python(tmp_path, minor, with_library=False) for minor in (11, 12)]
    with pytest.raises(BootstrapError) as refusal:
        interpreters.for_server([*pythons, pythons[0]])
    lines = str(refusal.value).splitlines()
    assert lines[0] == "no Python on PATH has a shared libpython, which Triton's Python backend loads"
    assert lines[1:3] == [
        f'  "{pythons[0]}" (3.11): no libpython3.11.so.1.0 in its library folders',
        f'  "{pythons[1]}" (3.12): no libpython3.12.so.1.0 in its library folders',
    ]
    assert "apt install libpython3-dev" in lines[3]


def test_candidates_start_with_the_interpreter_in_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = fake_python(tmp_path, 12, with_library=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert list(interpreters.candidates()) == [Path(sys.executable), python]
