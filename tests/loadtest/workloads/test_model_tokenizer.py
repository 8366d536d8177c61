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


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(LoadTestError, match=r"cannot be read \(File name too long\)"):
        load_tokenizer(Path("x" * 5000))


def test_what_the_file_says_of_cutting_does_not_count(folder: Path) -> None:
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(file))

    assert load_tokenizer(file)("five small words at once") == 6
    assert load_tokenizer(file)("one") == 2


def test_one_that_fails_on_a_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    Tokenizer(WordLevel({"a": 0}, unk_token="[UNK]")).save(str(file))

    with pytest.raises(LoadTestError, match=r"cannot count the tokens of a text .*: give the tokenizer\.json"):
        load_tokenizer(file)("b")
