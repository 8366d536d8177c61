from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.drafting.examples import conversation
from tests.drafting.full_disk import full_disk
from tools.drafting.conversations import (
    UNSEEN_PERCENT,
    Dataset,
    answer_tokens_in,
    is_unseen,
    shards_in,
    write_shard,
)
from tools.drafting.errors import DraftError


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    written = [conversation(1), conversation(2, length=11, unseen=True)]
    write_shard(tmp_path, 0, written, target_sha256="a", origin="prompts.txt")
    data = Dataset.read(tmp_path, "a")
    assert [part.tokens.tolist() for part in data.conversations] == [part.tokens.tolist() for part in written]
    assert [part.answer_start for part in data.training] == [8]
    assert [len(part.tokens) for part in data.unseen] == [11]
    assert data.origin == "prompts.txt"
    assert answer_tokens_in(shards_in(tmp_path)) == 32 + 3


def test_a_conversation_that_two_engines_wrote_counts_once(tmp_path: Path) -> None:
    for writer in (0, 1):
        write_shard(tmp_path, writer, [conversation(1)], target_sha256="a", origin="")
    assert len(Dataset.read(tmp_path, "a").conversations) == 1


def test_each_shard_of_a_writer_gets_a_new_number(tmp_path: Path) -> None:
    names = [write_shard(tmp_path, 3, [conversation(n)], target_sha256="a", origin="").name for n in range(2)]
    assert names == ["conversations-03-0000.safetensors", "conversations-03-0001.safetensors"]


def test_the_hash_follows_the_data(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [conversation(1)], target_sha256="a", origin="")
    before = Dataset.read(tmp_path, "a").sha256
    write_shard(tmp_path, 0, [conversation(2)], target_sha256="a", origin="")
    assert Dataset.read(tmp_path, "a").sha256 != before


def test_spelling_makes_no_other_prompt() -> None:
    prompts = [f"What is {number} and {number}?" for number in range(400)]
    assert [is_unseen(prompt) for prompt in prompts] == [is_unseen(f"  {prompt.upper()[:-1]}\n!") for prompt in prompts]


def test_about_the_stated_share_is_kept_from_training() -> None:
    share = sum(is_unseen(f"prompt {number}") for number in range(10_000)) / 100
    assert share == pytest.approx(UNSEEN_PERCENT, abs=1)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r"holds no conversations: write some first, with \./ladder draft train"):
        Dataset.read(tmp_path, "a")


def test_another_targets_answers_are_refused(tmp_path: Path) -> None:
    shard = write_shard(tmp_path, 0, [conversation(1)], target_sha256="a", origin="")
    with pytest.raises(DraftError, match=f'"{shard}" holds the answers of another target'):
        Dataset.read(tmp_path, "b")


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    shard = write_shard(tmp_path, 0, [conversation(1)], target_sha256="a", origin="")
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(DraftError, match=rf'"{shard}" is damaged .*: delete it and run the command again'):
        Dataset.read(tmp_path, "a")


def test_a_full_disk_leaves_no_half_shard(tmp_path: Path) -> None:
    file = tmp_path / "conversations-00-0000.safetensors"
    with full_disk(), pytest.raises(DraftError, match=rf'^"{file}" cannot be written \(.+\): free space on its disk'):
        write_shard(tmp_path, 0, [conversation(1)], target_sha256="a", origin="")
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_conversation() -> None:
    whole = conversation(1, length=10, start=7)
    assert np.array_equal(np.concatenate([whole.prompt, whole.answer]), whole.tokens)
    assert len(whole.answer) == 3
