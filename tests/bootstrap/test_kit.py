"""Kits that hold next to nothing, made into environments by the real interpreter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.airgap.build import pack
from tools.bootstrap import entry, interpreters, kit
from tools.bootstrap.environments import ENGINE, ENVIRONMENTS, SERVER, Environment, Stamp, is_ready
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.interpreters import Interpreter
from tools.bootstrap.kit import Kit, install
from tools.bootstrap.layout import Layout

MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"


def kit_at(folder: Path, *, python: str = MINOR, first_imports: tuple[str, ...] = ("of_the_kit",)) -> Kit:
    tree = folder.parent / "tree"
    for name, module in (("engine", "of_the_kit"), ("server", "msgspec"), ("server", "numpy"), ("server", "zmq")):
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name / f"{module}.py").write_text(f"WHOSE = {name!r}\n", encoding="utf-8")
    folder.mkdir()
    # Small pieces: one is cut in the middle of the archive.
    made = Kit(folder, python, "cuda", first_imports, pack(tree, folder, 100))
    made.write()
    return made


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    found = interpreters.inspect(Path(sys.executable))
    assert found is not None
    monkeypatch.setattr(
        interpreters, "for_server", lambda _: Interpreter(found.executable, found.version, Path("/lib"))
    )
    monkeypatch.setattr(kit, "require_disk", lambda environment, layout: layout.environments.mkdir(exist_ok=True))
    layout = Layout(tmp_path / "home")
    layout.private.mkdir(parents=True)
    shutil.copytree(Layout.of_this_checkout().locks, layout.locks)
    return layout


def python_of(environment: Environment, layout: Layout, code: str) -> str:
    command = [layout.environment_python(environment.name), "-I", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout.strip()


@pytest.mark.slow
def test_both_environments_come_out_of_the_pieces(tmp_path: Path, layout: Layout) -> None:
    phases: list[str] = []
    made = kit_at(tmp_path / "kit")
    assert len(made.pieces) > 2
    install(Kit.read(tmp_path / "kit"), layout, phases.append)
    assert phases == [
        "checking the pieces",
        "unpacking",
        "making the engine environment",
        "making the server environment",
        "ready",
    ]
    assert python_of(ENGINE, layout, "import of_the_kit; print(of_the_kit.WHOSE)") == "engine"
    assert python_of(SERVER, layout, "import numpy; print(numpy.WHOSE)") == "server"
    # pytest is the machine's: the engine environment sees it, the server's does not.
    assert python_of(ENGINE, layout, "import pytest; print(pytest.__name__)") == "pytest"
    with pytest.raises(subprocess.CalledProcessError):
        python_of(SERVER, layout, "import pytest")
    stamp = Stamp.read(ENGINE, layout)
    assert stamp is not None
    assert (stamp.kit, stamp.accelerator) == (str(tmp_path / "kit"), "cuda")
    assert not (layout.environments / ".kit.partial").exists()


@pytest.mark.slow
def test_they_stay_ready_whatever_the_lock_files_say(tmp_path: Path, layout: Layout) -> None:
    kit_at(tmp_path / "kit")
    assert entry.run(["setup", "--from-kit", str(tmp_path / "kit")], layout) == 0
    (layout.locks / "engine.txt").write_text("other==1\n", encoding="utf-8")
    assert all(is_ready(environment, layout) for environment in ENVIRONMENTS)


def test_what_does_not_import_is_said_and_leaves_no_environment(tmp_path: Path, layout: Layout) -> None:
    made = kit_at(tmp_path / "kit", first_imports=("missing_everywhere",))
    with pytest.raises(BootstrapError, match=r"(?s)has to have torch, transformers, numpy.*missing_everywhere"):
        install(made, layout, lambda _: None)
    assert not is_ready(ENGINE, layout)
    assert not (layout.environments / ".kit.partial").exists()


def test_a_missing_or_damaged_piece_is_named(tmp_path: Path, layout: Layout) -> None:
    made = kit_at(tmp_path / "kit")
    piece = tmp_path / "kit" / "piece.01"
    content = piece.read_bytes()
    piece.write_bytes(content[:-1] + b"?")
    with pytest.raises(BootstrapError, match=r'piece\.01" is damaged \(another SHA-256 than in kit\.json\)'):
        install(made, layout, lambda _: None)
    piece.unlink()
    with pytest.raises(BootstrapError, match=rf'piece\.01" is missing: bring all {len(made.pieces)} pieces'):
        install(made, layout, lambda _: None)


def test_a_kit_for_another_python_is_refused(tmp_path: Path, layout: Layout) -> None:
    with pytest.raises(BootstrapError, match=rf"is for Python 3\.9, and .* is {MINOR}: set LADDER_PYTHON"):
        install(kit_at(tmp_path / "kit", python="3.9"), layout, lambda _: None)


def test_a_folder_without_a_kit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BootstrapError, match=r"holds no kit\.json: give the folder that \./ladder kit build wrote"):
        Kit.read(tmp_path)
    (tmp_path / "kit.json").write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(BootstrapError, match="has format 2, not 1: build the kit again"):
        Kit.read(tmp_path)
    (tmp_path / "kit.json").write_text("{", encoding="utf-8")
    with pytest.raises(BootstrapError, match="cannot be read"):
        Kit.read(tmp_path)


def test_the_command_line_of_setup(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["setup", "--from-kit"], layout) == 2
    assert capsys.readouterr().err == 'ladder: error: "setup" takes nothing but --from-kit DIR, got "--from-kit"\n'
    assert entry.run(["setup", "--help"], layout) == 0
    assert "--from-kit DIR" in capsys.readouterr().out
    assert not any(layout.private.iterdir())
