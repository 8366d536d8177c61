from __future__ import annotations

from pathlib import Path

import pytest

from tools.bootstrap.layout import Layout
from tools.bootstrap.locking import exclusive
from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles, known_port_bases, new_id


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    files = InstanceFiles(tmp_path / "8000")
    instance = Instance(
        new_id(8000), 8000, "cpu-smollm2", ("a", "b"), ("llm_bf16",), "/tmp/s", 1.5, 2, 3, True, "running"
    )
    assert Instance.read(files) is None
    instance.write(files)
    assert Instance.read(files) == instance
    assert [file.name for file in files.folder.iterdir()] == ["state.json"]


DAMAGED = [b"", b"{", b"[]", b"null", b'{"id": 1}', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_state_file_is_named(tmp_path: Path, content: bytes) -> None:
    files = InstanceFiles(tmp_path / "8000")
    files.folder.mkdir()
    files.state.write_bytes(content)
    with pytest.raises(ServingError) as refusal:
        Instance.read(files)
    assert str(refusal.value).startswith(f'"{files.state}" is not what a supervisor writes (')
    assert str(refusal.value).endswith("remove it; ./ladder doctor --port-base 8000 names what still holds those ports")


def test_a_state_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    files = InstanceFiles(tmp_path / "8000")
    files.state.mkdir(parents=True)
    with pytest.raises(OSError, match=r"state\.json"):
        Instance(new_id(8000), 8000, "p", (), (), "").write(files)
    assert [file.name for file in files.folder.iterdir()] == ["state.json"]


def test_an_instance_is_supervised_while_its_lock_is_held(tmp_path: Path) -> None:
    files = InstanceFiles(tmp_path)
    assert not files.supervised()
    with exclusive(files.lock, lambda _: None):
        assert files.supervised()
    assert not files.supervised()


def test_ids_differ_and_name_the_port_base() -> None:
    first, second = new_id(8000), new_id(8000)
    assert first != second
    assert first.startswith("8000-")


def test_the_instances_of_a_checkout_are_listed_by_port_base(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert known_port_bases(layout) == []
    for base in (18200, 8000):
        Instance(new_id(base), base, "p", (), (), "").write(InstanceFiles.at(base, layout))
    (layout.runs / "18300").mkdir()
    assert known_port_bases(layout) == [8000, 18200]


def test_a_title_names_the_profile_or_the_repositories() -> None:
    assert Instance("i", 1, "cpu-smollm2", ("/r",), (), "").title == 'profile "cpu-smollm2"'
    assert Instance("i", 1, "", ("/r", "/s"), (), "").title == "repositories /r, /s"
