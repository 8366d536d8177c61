"""A file is replaced by a whole one, or left as it is."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.bootstrap.whole_file import whole_file, write_durably


def test_what_was_written_takes_the_place(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old", encoding="utf-8")
    with whole_file(file) as draft:
        draft.write_text("new", encoding="utf-8")
        assert file.read_text(encoding="utf-8") == "old"
    assert file.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_after_an_error_the_old_one_stands_alone(tmp_path: Path, error: BaseException) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old", encoding="utf-8")

    def interrupted() -> None:
        with whole_file(file) as draft:
            draft.write_text("ne", encoding="utf-8")
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_disk_that_is_full_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"

    def fill() -> None:
        with whole_file(file) as draft:
            draft.symlink_to("/dev/full")
            draft.write_text("new", encoding="utf-8")

    with pytest.raises(OSError, match="No space left on device") as full:
        fill()
    assert full.value.filename == str(file)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "gone" / "a.txt"

    def write() -> None:
        with whole_file(file) as draft:
            draft.write_text("new", encoding="utf-8")

    with pytest.raises(FileNotFoundError) as gone:
        write()
    assert gone.value.filename == str(file)


def test_what_is_to_outlive_a_power_cut_is_on_the_disk_before_it_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "folder" / "a.json"
    write_durably(file, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(file, "new")
    assert file.read_text(encoding="utf-8") == "old"
    assert list(file.parent.iterdir()) == [file]


def test_threads_that_write_the_same_file_do_not_share_a_draft(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with whole_file(file) as draft, ThreadPoolExecutor(1) as other:
        draft.write_text("mine", encoding="utf-8")
        other.submit(write_durably, file, "theirs").result()
        assert file.read_text(encoding="utf-8") == "theirs"
    assert file.read_text(encoding="utf-8") == "mine"
