from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.serving import backend_directory
from tools.serving.backend_directory import ServerSoftware
from tools.serving.command import server_command, server_environment
from tools.serving.errors import ServingError
from tools.serving.instance import Instance

INSTANCE = Instance("8100-ab", 8100, "p", ("/m", "/e"), (), "/tmp/ladder-8100-ab")
SOFTWARE = ServerSoftware(
    binary=Path("/env/tritonserver"),
    backends=Path("/env/backends"),
    stub=Path("/env/stub"),
    libraries=(Path("/env/libs"), Path("/python/lib")),
    bin=Path("/env/bin"),
)


def test_the_server_listens_on_loopback_alone_at_three_ports() -> None:
    command = server_command(INSTANCE, SOFTWARE, Path("/b"))
    addresses = {argument for argument in command if "-address=" in argument}
    assert addresses == {f"--{end}-address=127.0.0.1" for end in ("http", "grpc", "metrics")}
    assert {"--http-port=8100", "--grpc-port=8101", "--metrics-port=8102"} <= set(command)


def test_the_server_starts_empty_with_complete_configs_and_its_own_shared_memory() -> None:
    command = server_command(INSTANCE, SOFTWARE, Path("/b"))
    assert command[0] == "/env/tritonserver"
    assert [argument for argument in command if "repository" in argument] == [
        "--model-repository=/m",
        "--model-repository=/e",
    ]
    assert {
        "--disable-auto-complete-config",
        "--model-control-mode=explicit",
        "--backend-directory=/b",
        "--grpc-header-forward-pattern=(?i)x-ladder-.*",
        "--backend-config=python,shm-region-prefix-name=ladder-8100-ab-",
    } <= set(command)


def test_no_more_models_load_at_once_than_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, loads in ((1, 2), (2, 2), (16, 16)):
        monkeypatch.setattr("tools.serving.command.os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert f"--model-load-thread-count={loads}" in server_command(INSTANCE, SOFTWARE, Path("/b"))


def test_everything_below_the_server_is_told_where_it_belongs() -> None:
    layout = Layout(Path("/home"))
    users = {
        "PATH": "/usr/bin",
        "LD_LIBRARY_PATH": "/cuda",
        "PYTHONPATH": "/x",
        "PYTHONDONTWRITEBYTECODE": "1",
        "A": "b",
    }
    assert server_environment(INSTANCE, SOFTWARE, layout, users) == {
        "A": "b",
        # The stub's interpreter is the first python3 on PATH.
        "PATH": "/env/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/env/libs:/python/lib:/cuda",
        "LADDER_HOME": "/home",
        "LADDER_ENGINE_PYTHON": "/home/.ladder/env/engine/bin/python",
        "LADDER_ENGINE_LIBRARY_PATH": "/cuda",
        "LADDER_SOCKETS": "/tmp/ladder-8100-ab",
        "VLLM_RPC_BASE_PATH": "/tmp/ladder-8100-ab",
        "LADDER_RELEASE_STATE": "/home/.ladder/release/8100/p/release.yaml",
        "LADDER_INSTANCE": "8100-ab",
        "SPT_NOENV": "1",
    }


def test_a_user_may_name_the_folder_of_vllms_sockets() -> None:
    variables = server_environment(INSTANCE, SOFTWARE, Layout(Path("/home")), {"VLLM_RPC_BASE_PATH": "/run/vllm"})
    assert variables["VLLM_RPC_BASE_PATH"] == "/run/vllm"


def test_a_user_may_bring_an_interpreter_for_engines() -> None:
    users = {"LADDER_ENGINE_PYTHON": "/cuda/bin/python"}
    environment = server_environment(INSTANCE, SOFTWARE, Layout(Path("/home")), users)
    assert environment["LADDER_ENGINE_PYTHON"] == "/cuda/bin/python"


@pytest.fixture
def software(tmp_path: Path) -> ServerSoftware:
    python = tmp_path / "wheel" / "backends" / "python"
    python.mkdir(parents=True)
    for file in (python / "libtriton_python.so", python / "triton_python_backend_utils.py"):
        file.write_text(file.name, encoding="utf-8")
    stub = tmp_path / "wheel" / "triton_python_backend_stub"
    stub.write_text("stub", encoding="utf-8")
    stub.chmod(0o755)
    return ServerSoftware(tmp_path / "tritonserver", python.parent, stub, (), tmp_path)


def test_the_backend_directory_holds_the_python_backend_and_ours(tmp_path: Path, software: ServerSoftware) -> None:
    layout = Layout(tmp_path / "home")
    backends = backend_directory.build(software, layout)
    stub = backends / "python" / "triton_python_backend_stub"
    assert stub.stat().st_mode & 0o111
    # tritonserver refuses a Python-based backend whose library is a link that leads out of the folder.
    assert not any(file.is_symlink() for file in (backends / "python").iterdir())
    assert (backends / "vllm" / "model.py").readlink() == layout.home / "tools" / "backends" / "vllm" / "model.py"


def test_a_right_backend_directory_is_left_alone_and_a_wrong_one_mended(
    tmp_path: Path, software: ServerSoftware
) -> None:
    layout = Layout(tmp_path / "home")
    library = backend_directory.build(software, layout) / "python" / "libtriton_python.so"
    before = library.stat().st_ino
    backend_directory.build(software, layout)
    assert library.stat().st_ino == before
    library.unlink()
    library.symlink_to(software.backends / "python" / library.name)
    backend_directory.build(software, layout)
    assert not library.is_symlink()
    assert library.read_text(encoding="utf-8") == library.name


def test_a_missing_server_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServingError, match=r"the server environment is not there: ./ladder setup builds it"):
        ServerSoftware.of(Layout(tmp_path))


def test_a_backend_that_cannot_be_copied_leaves_no_draft(
    tmp_path: Path, software: ServerSoftware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(_source: Path, copy: Path) -> None:
        copy.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(copy))

    monkeypatch.setattr("tools.serving.backend_directory.shutil.copy2", fill_the_disk)
    layout = Layout(tmp_path / "home")
    with pytest.raises(OSError, match="No space left"):
        backend_directory.build(software, layout)
    assert list((layout.backends / "python").iterdir()) == []
