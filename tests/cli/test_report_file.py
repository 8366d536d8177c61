from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tools.cli.report_file import write_report_file


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("old", encoding="utf-8")
    with report.open(encoding="utf-8") as reader:
        write_report_file(report, "new")
        assert reader.read() == "old"
    assert report.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [report]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_report_file(link, "new")
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_report_file(pipe, "new")
    reader.join(10)
    assert read == ["new"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_report_file(tmp_path, "new")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(NotADirectoryError):
        write_report_file(tmp_path / "file" / "report", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interruption_leaves_the_report_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "report").write_text("old", encoding="utf-8")
    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_report_file(tmp_path / "report", "new")
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"report": "old"}
