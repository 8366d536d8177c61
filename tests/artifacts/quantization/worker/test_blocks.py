from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from tests.fixtures.tiny_model import write_chatml_tokenizer, write_llama2_tokenizer
from tools.artifacts.quantization.texts import Message, Text
from tools.artifacts.quantization.worker.blocks import cut, encode

CHAT = Text(messages=(Message(role="user", content="Hi"), Message(role="assistant", content="Paris")))


def test_a_long_text_is_cut_and_not_dropped() -> None:
    blocks = cut([list(range(100))], length=10, limit=30)
    assert blocks.blocks == (tuple(range(10)), tuple(range(10, 20)), tuple(range(20, 30)))
    assert (blocks.tokens, blocks.texts_cut, blocks.tokens_left_out) == (30, 1, 70)


def test_texts_take_turns_so_that_a_long_one_does_not_crowd_out_the_others() -> None:
    blocks = cut([[1] * 100, [2] * 4, [3] * 8], length=4, limit=16)
    assert blocks.blocks == ((1,) * 4, (2,) * 4, (3,) * 4, (1,) * 4)
    assert (blocks.texts_cut, blocks.tokens_left_out) == (2, 96)


def test_short_texts_are_joined() -> None:
    blocks = cut([[1, 2], [3], [4, 5]], length=4, limit=100)
    assert blocks.blocks == ((1, 2, 3, 4),)
    assert (blocks.texts_cut, blocks.tokens_left_out) == (1, 1)


def test_fewer_tokens_than_a_block_make_a_shorter_one() -> None:
    assert cut([[1, 2], [3]], length=512, limit=2048).blocks == ((1, 2, 3),)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=30), min_size=1).filter(any), st.integers(1, 20), st.integers(1, 60)
)
def test_every_token_is_used_or_counted(texts: list[list[int]], length: int, limit: int) -> None:
    blocks = cut(texts, length, limit)
    assert len({len(block) for block in blocks.blocks}) == 1
    assert 0 < blocks.tokens <= limit
    assert blocks.tokens + blocks.tokens_left_out == sum(map(len, texts))
    assert (blocks.texts_cut == 0) is (blocks.tokens_left_out == 0)


def test_conversations_get_the_chat_template_and_plain_text_does_not(tmp_path: Path) -> None:
    write_chatml_tokenizer(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    chat, plain = encode(tokenizer, [CHAT, Text(text="Paris")])
    assert tokenizer.decode(chat) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nParis<|im_end|>\n"
    assert tokenizer.decode(plain) == "Paris"


def test_a_template_that_writes_the_bos_does_not_get_a_second(tmp_path: Path) -> None:
    write_llama2_tokenizer(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    chat, plain = encode(tokenizer, [CHAT, Text(text="Paris")])
    assert chat.count(tokenizer.bos_token_id) == plain.count(tokenizer.bos_token_id) == 1


def test_without_a_template_the_turns_are_plain_text(tmp_path: Path) -> None:
    write_llama2_tokenizer(tmp_path, template=None)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(tmp_path))
    assert tokenizer.decode(encode(tokenizer, [CHAT])[0], skip_special_tokens=True) == "Hi\n\nParis"
