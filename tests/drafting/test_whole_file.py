from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tools.drafting.errors import DraftError
from tools.drafting.whole_file import remove_partials_of, whole_file


def test_what_was_written_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old", encoding="utf-8")
    with whole_file(file) as partial:
        partial.write_text("new", encoding="utf-8")
        assert file.read_text(encoding="utf-8") == "old"
    assert file.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [file]


def write_half(file: Path, end: BaseException) -> None:
    with whole_file(file) as partial:
        partial.write_text("ne", encoding="utf-8")
        raise end


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old", encoding="utf-8")
    with pytest.raises(
        DraftError, match=rf'^"{file}" cannot be written \(No space left on device\): free space on its'
    ):
        write_half(file, OSError(errno.ENOSPC, "No space left on device"))
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_interruption_is_passed_on_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "a", KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == []


def test_only_the_killed_writers_leftovers_are_removed(tmp_path: Path) -> None:
    for name in (".a.12.partial", ".a.13.partial", "a"):
        (tmp_path / name).touch()
    remove_partials_of(12, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [".a.13.partial", "a"]
