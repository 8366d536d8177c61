from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive
from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles, new_id
from tools.serving.server import require_served_paths, require_startable

BASE = 18218


def write(files: InstanceFiles, sockets: Path) -> None:
    instance = Instance(new_id(BASE), BASE, "cpu-smollm2", (), (), str(sockets), 0.0, 1, 2, phase="running")
    instance.write(files)


def test_a_running_server_is_named_with_how_to_stop_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    files = InstanceFiles.at(BASE, layout)
    with exclusive(files.lock, lambda _: None):
        with pytest.raises(ServingError, match="a server is just being started there"):
            require_startable(BASE, layout)
        write(files, tmp_path / "sockets")
        with pytest.raises(ServingError) as refusal:
            require_startable(BASE, layout)
    first, second = str(refusal.value).splitlines()
    assert first.startswith(f'profile "cpu-smollm2": running at ports {BASE} to {BASE + 2} since ')
    assert first.endswith("(tritonserver process 2)")
    assert second == f"./ladder down --port-base {BASE} stops it"


def test_what_a_killed_server_left_is_cleared(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    files = InstanceFiles.at(BASE, layout)
    (tmp_path / "sockets").mkdir()
    write(files, tmp_path / "sockets")
    require_startable(BASE, layout)
    assert not files.state.exists()
    assert not (tmp_path / "sockets").exists()


def test_a_busy_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", BASE + 2))
        listener.listen()
        with pytest.raises(ServingError, match=rf"port {BASE + 2} \(metrics\) is held by "):
            require_startable(BASE, Layout(tmp_path))


@pytest.mark.parametrize("name", ["two words", "ümlaut", "a$(touch b)", "it's", "a&b", "x;y", "a\nb", "[1]"])
def test_a_path_that_the_python_backend_cannot_take_is_refused(name: str) -> None:
    with pytest.raises(
        ServingError, match=r'(?s)^"/srv/.*" has a .* in it, which tritonserver\'s Python backend'
    ) as refusal:
        require_served_paths([Path("/srv/plain-path_1.0"), Path("/srv") / name])
    assert str(refusal.value).endswith("move it to a path of ASCII letters, digits and _ - . /")


def test_plain_paths_are_served() -> None:
    require_served_paths([Path("/srv/triton-llm_ladder-1.0/a+b=c,d:e@f%"), Path("relative")])
