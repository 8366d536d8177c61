"""The history: lines are only ever added, and a broken one is told from the others."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tools.release.errors import ReleaseError
from tools.release.history import Event, History, who


def event(number: int) -> Event:
    return Event(
        id=f"r/{number}", at=1_800_000_000.0, who="ann@here", what="set", route="default", target="b:1",
        before={"a:1": 100.0}, after={"a:1": 90.0, "b:1": 10.0}, why="größer",
    )  # fmt: skip


def test_events_come_back_in_order(tmp_path: Path) -> None:
    history = History(tmp_path / "new" / "history.jsonl")
    assert list(history.events()) == []
    assert not history.holds("r/1")
    for number in (1, 2):
        history.append(event(number))
    assert list(history.events()) == [event(1), event(2)]
    assert history.holds("r/1")
    assert not history.holds("r/3")
    assert event(1).when == "2027-01-15 08:00:00"


def test_what_was_written_is_never_changed(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.append(event(1))
    before = history.path.read_bytes()
    history.append(event(2))
    assert history.path.read_bytes().startswith(before)


def test_a_line_that_was_cut_short_is_named_and_the_next_one_is_whole(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.append(event(1))
    whole = history.path.read_bytes()
    history.path.write_bytes(whole + whole[:40])
    history.append(event(2))
    assert history.holds("r/2")
    with pytest.raises(ReleaseError, match=r'history.jsonl" line 2 is no event of a release: a crash may have cut'):
        list(history.events())


def test_an_event_is_found_however_much_came_after_it(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.append(event(1))
    long = event(2).model_copy(update={"why": "x" * 200_000})
    history.append(long)
    assert history.holds("r/1")
    assert history.holds("r/2")


def test_what_a_full_disk_does_not_take_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.append(event(1))
    before = history.path.read_bytes()
    # The next line does not fit, its beginning does.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 40, limits[1]))
    try:
        with pytest.raises(OSError, match=r"history\.jsonl"):
            history.append(event(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert history.path.read_bytes() == before
    history.append(event(2))
    assert list(history.events()) == [event(1), event(2)]


def test_somebody_is_named() -> None:
    user, _, host = who().partition("@")
    assert user
    assert host
