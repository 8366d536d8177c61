from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.serving.log_follower import follow
from tools.serving.server import last_lines


def test_the_last_lines_of_a_log_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log, 2) == []
    log.write_text("a\nb\nc\n", encoding="utf-8")
    assert last_lines(log, 2) == ["b", "c"]


@pytest.mark.slow
def test_following_gives_whole_lines_until_nobody_writes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\nlast\nhal", encoding="utf-8")
    additions: Iterator[str] = iter(["f\n", "next\nunfinished"])

    def is_written() -> bool:
        addition = next(additions, None)
        with log.open("a", encoding="utf-8") as content:
            content.write(addition or "")
        return addition is not None

    assert list(follow(log, 1, is_written)) == ["last", "half", "next", "unfinished"]


@pytest.mark.slow
def test_a_log_that_is_started_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line of the last server\n", encoding="utf-8")
    rounds = iter([True, True, False])

    def is_written() -> bool:
        going_on = next(rounds)
        log.write_text("new\n", encoding="utf-8")
        return going_on

    assert list(follow(log, 0, is_written)) == ["new"]
