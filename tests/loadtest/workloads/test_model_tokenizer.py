"""Counting with a tokenizer.json, and what is said about files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from loadtest.errors import LoadTestError
from loadtest.workloads.model_tokenizer import load_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer with a token a word, and a BOS in front."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "<s>": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_special_tokens_count_and_folder_or_file_will_do(folder: Path) -> None:
    assert load_tokenizer(folder)("three small words") == 4
    assert load_tokenizer(folder / "tokenizer.json")("one") == 2


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError) as refused:
        load_tokenizer(tmp_path)
    assert str(refused.value) == (
        f'tokenizer "{tmp_path}/tokenizer.json" is no file: give the tokenizer.json of the model under test, '
        "or the folder it lies in"
    )


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"version": 3}', encoding="utf-8")

    with pytest.raises(LoadTestError, match=r"cannot be read .*: give the tokenizer.json of the model under test"):
        load_tokenizer(file)
