from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.statistics.files import make_folder, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text("old", encoding="utf-8")
    write_whole(file, "中文\n")
    assert file.read_bytes() == "中文\n".encode()
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_the_old_file_and_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.json"
    file.write_text("old", encoding="utf-8")

    def full(descriptor: int, *arguments: object, **keywords: object) -> object:
        os.close(descriptor)
        return Path("/dev/full").open("w", encoding="utf-8")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(LoadTestError) as caught:
        write_whole(file, "new")
    assert str(caught.value) == f'"{file}" cannot be written: no space left on device: free some space'
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.mkdir()
    with pytest.raises(LoadTestError) as caught:
        write_whole(file, "new")
    assert str(caught.value) == f'"{file}" cannot be written: is a directory: name another folder with --out'
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gone" / "results.json"
    with pytest.raises(LoadTestError, match="no such file or directory: name another folder with --out") as caught:
        write_whole(file, "new")
    assert str(caught.value).startswith(f'"{file}" cannot be written')


def test_a_folder_that_may_not_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **keywords: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(LoadTestError) as caught:
        make_folder(tmp_path / "out")
    assert str(caught.value) == (
        f'"{tmp_path / "out"}" cannot be written: permission denied: name another folder with --out'
    )


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")
    with pytest.raises(LoadTestError, match=r'out" cannot be written: file exists: name another folder with --out'):
        make_folder(tmp_path / "out")
