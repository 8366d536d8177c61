from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.drafting.examples import conversation
from tests.waiting import wait_until
from tools.drafting import writing
from tools.drafting.conversations import answer_tokens_in, shards_in, write_shard
from tools.drafting.errors import DraftError
from tools.drafting.generation import WritingSettings
from tools.drafting.writing import write_with_engines

HOME = Path(__file__).resolve().parents[2]
Behave = Callable[[str], None]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behave:
    """Makes the engines that are started do what is said."""
    interpreter = tmp_path / "python"
    command = shlex.join([sys.executable, str(HOME / "tests" / "drafting" / "fake_engine.py")])
    interpreter.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    interpreter.chmod(0o755)
    monkeypatch.setattr(writing.sys, "executable", str(interpreter))
    monkeypatch.setattr(writing, "_POLL_S", 0.02)
    monkeypatch.setenv("PYTHONPATH", str(HOME))
    return lambda how: monkeypatch.setenv("FAKE_ENGINE", how)


def write(work: Path, report: Callable[[str], None] = print, *, engines: int = 1, **fields: Any) -> None:
    work.mkdir(exist_ok=True)
    settings = WritingSettings(**{"tokens": 100, "seconds": 60.0, "at_once": 4} | fields)
    write_with_engines(work / "target", work, settings, engines=engines, report=report)


@pytest.mark.slow
def test_engines_share_what_is_missing(engine: Behave, tmp_path: Path) -> None:
    engine("write")
    said: list[str] = []
    write(tmp_path / "work", said.append, tokens=101, engines=2)
    shards = shards_in(tmp_path / "work" / "data")
    assert [shard.name for shard in shards] == [
        "conversations-00-0000.safetensors",
        "conversations-01-0000.safetensors",
    ]
    assert answer_tokens_in(shards) == 102
    assert said[-1].startswith("102 answer tokens in 2 shards; this run took ")


@pytest.mark.slow
def test_what_earlier_runs_wrote_counts(engine: Behave, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "data"
    folder.mkdir(parents=True)
    write_shard(folder, 0, [conversation(9, 48)], target_sha256="a", origin="a test")
    engine("write")
    write(tmp_path / "work")
    assert answer_tokens_in(shards_in(folder)) == 100


def test_with_enough_on_disk_no_engine_is_started(engine: Behave, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "data"
    folder.mkdir(parents=True)
    write_shard(folder, 0, [conversation(9, 128)], target_sha256="a", origin="a test")
    engine("fail")
    said: list[str] = []
    write(tmp_path / "work", said.append)
    assert said == ["the data is there already: 120 answer tokens"]


def test_an_engine_that_fails_is_quoted(engine: Behave, tmp_path: Path) -> None:
    engine("fail")
    log = tmp_path / "work" / "engine-00.log"
    expected = rf'^engine 0 failed, see "{log}" and above:\n  the last words of an engine$'
    with pytest.raises(DraftError, match=expected):
        write(tmp_path / "work")


def test_engines_that_write_nothing_are_an_error(engine: Behave, tmp_path: Path) -> None:
    engine("nothing")
    with pytest.raises(DraftError, match=r"^no conversation was written: the prompts are too long, or have no answer"):
        write(tmp_path / "work")


def test_too_little_time_is_said(engine: Behave, tmp_path: Path) -> None:
    engine("nothing")
    with pytest.raises(DraftError, match=r"^no conversation was written in 0 s: give more time, or ask for fewer at"):
        write(tmp_path / "work", seconds=0.0)


def test_a_prompt_file_that_is_no_use_is_refused_before_an_engine_starts(engine: Behave, tmp_path: Path) -> None:
    engine("fail")
    empty = tmp_path / "prompts.txt"
    empty.touch()
    with pytest.raises(DraftError, match=f'^prompt file "{empty}" holds no prompt'):
        write(tmp_path / "work", prompts=empty)


def test_an_interruption_leaves_no_engine_and_no_half_written_file(engine: Behave, tmp_path: Path) -> None:
    engine("hang")
    work = tmp_path / "work"

    def interrupt(_: str) -> None:
        wait_until(lambda: (work / "pid").exists() and (work / "pid").read_text(encoding="utf-8"))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(work, interrupt)
    assert not psutil.pid_exists(int((work / "pid").read_text(encoding="utf-8")))
    assert list((work / "data").iterdir()) == []
