from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.drafting.fake_vllm import FakeVllm
from tools.drafting.architecture import Target
from tools.drafting.conversations import Dataset, is_unseen
from tools.drafting.errors import DraftError
from tools.drafting.generation import SELF_WRITTEN, WriterSettings, read_prompts, write_conversations

ANSWER = list(range(10, 20))


def settings(target: Target, folder: Path, **fields: Any) -> WriterSettings:
    folder.mkdir(exist_ok=True)
    defaults = {
        "writer": 0, "writers": 1, "tokens": 1_000_000, "seconds": 60.0, "longest": 128, "at_once": 4, "seed": 0,
    }  # fmt: skip
    return WriterSettings(
        target=target.folder, target_sha256=target.weights_sha256(), folder=folder, **(defaults | fields)
    )


def prompt_file(folder: Path, lines: list[str]) -> Path:
    file = folder / "prompts.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def written(target: Target, folder: Path) -> Dataset:
    return Dataset.read(folder, target.weights_sha256())


def test_a_prompt_file_is_read_without_blanks_and_repetitions(tmp_path: Path) -> None:
    assert read_prompts(prompt_file(tmp_path, ["one", "", "  two ", "one"])) == ["one", "two"]


def test_a_prompt_file_that_holds_none_is_refused(tmp_path: Path) -> None:
    file = prompt_file(tmp_path, ["", "   "])
    with pytest.raises(DraftError, match=f'^prompt file "{file}" holds no prompt: write one a line$'):
        read_prompts(file)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["absent", "no UTF-8"])
def test_a_prompt_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "prompts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(
        DraftError, match=rf'^prompt file "{file}" cannot be read \(.+\): name a UTF-8 text, a prompt a'
    ):
        read_prompts(file)


def test_writers_share_the_prompts_and_keep_the_split(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"Count to {number}." for number in range(150)]
    file = prompt_file(tmp_path, lines)
    FakeVllm(lambda prompt, _: (prompt[-3:] + ANSWER, "", "stop")).install(monkeypatch)
    for writer in (0, 1):
        write_conversations(settings(target, tmp_path / "data", writer=writer, writers=2, prompts=file))
    data = written(target, tmp_path / "data")
    assert len(data.conversations) == len({part.prompt.tobytes() for part in data.conversations}) == 150
    assert len(data.unseen) == sum(map(is_unseen, lines)) > 0
    assert data.origin == "prompts.txt"


def test_enough_tokens_end_a_writer(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = prompt_file(tmp_path, [f"Count to {number}." for number in range(40)])
    FakeVllm(lambda *_: (ANSWER, "", "stop")).install(monkeypatch)
    write_conversations(settings(target, tmp_path / "data", tokens=80, prompts=file))
    # Batches of four: the second has 80.
    assert len(written(target, tmp_path / "data").conversations) == 8


def test_time_that_is_up_ends_a_writer_after_its_batch(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = prompt_file(tmp_path, [f"Count to {number}." for number in range(40)])
    FakeVllm(lambda *_: (ANSWER, "", "stop")).install(monkeypatch)
    write_conversations(settings(target, tmp_path / "data", seconds=0.0, prompts=file))
    assert len(written(target, tmp_path / "data").conversations) == 4


def test_answers_fill_the_context_and_half_of_them_are_greedy(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, Any]] = []

    def answer(prompt: list[int], parameters: Any) -> tuple[list[int], str, str]:
        asked.append((len(prompt), parameters))
        return ANSWER, "", "stop"

    file = prompt_file(tmp_path, ["a", "b", "c", "d"])
    FakeVllm(answer).install(monkeypatch)
    write_conversations(settings(target, tmp_path / "data", prompts=file))
    assert all(length + parameters.max_tokens == 128 for length, parameters in asked)
    assert [parameters.temperature for _, parameters in asked] == [0.0, 0.7, 0.0, 0.7]


def test_what_nothing_can_be_learnt_from_is_left_out(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of one token, and a prompt that leaves no room for an answer, which is not even asked."""
    file = prompt_file(tmp_path, ["short", "word " * 300, "other"])
    answers = itertools.cycle([ANSWER[:1], ANSWER])
    fake = FakeVllm(lambda *_: (next(answers), "", "stop"))
    fake.install(monkeypatch)
    write_conversations(settings(target, tmp_path / "data", prompts=file))
    assert len(fake.prompts) == 2
    assert len(written(target, tmp_path / "data").conversations) == 1


def test_without_a_file_the_target_writes_the_users_turns(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = itertools.cycle(
        [("What is rain?", "stop"), ("what is RAIN", "stop"), ("cut off", "length"), ("  ", "stop")]
    )

    def answer(_: list[int], parameters: Any) -> tuple[list[int], str, str]:
        if parameters.temperature == 1.0:
            return [], *next(turns)
        return ANSWER, "", "stop"

    fake = FakeVllm(answer)
    fake.install(monkeypatch)
    write_conversations(settings(target, tmp_path / "data", tokens=10))
    data = written(target, tmp_path / "data")
    assert (len(data.conversations), data.origin) == (1, SELF_WRITTEN)
    # Four tries at a turn from its opening alone, and the one that is a new and whole question.
    openings, question = fake.prompts[:4], fake.prompts[4]
    assert openings == [question[: len(openings[0])]] * 4
    assert len(fake.prompts) == 5


def test_another_run_of_a_writer_goes_on_with_another_seed(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = prompt_file(tmp_path, ["a", "b"])
    fake = FakeVllm(lambda *_: (ANSWER, "", "stop"))
    fake.install(monkeypatch)
    for _ in range(2):
        write_conversations(settings(target, tmp_path / "data", writer=1, writers=2, seed=5, prompts=file))
    assert [engine["seed"] for engine in fake.engines] == [6, 1006]
