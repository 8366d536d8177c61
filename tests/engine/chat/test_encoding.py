from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import tiny_model
from tools.engine.chat.conversation import Message
from tools.engine.chat.encoding import ChatEncoder
from tools.engine.errors import RequestError
from tools.engine.tokenizer_loading import load_tokenizer

# No content may write a special token itself: these never hold one.
CONTENTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="<|>"), min_size=1, max_size=40
) | st.sampled_from(["你好，世界", "🙂👩‍🚀", "e\u0301a\u0308", "  leading", "trailing \n", "s>", "[INST]"])


class Chat:
    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = load_tokenizer(str(folder))
        self.encoder = ChatEncoder(self.tokenizer, "models/tiny")


@pytest.fixture(scope="module")
def chatml(chatml_folder: Path) -> Chat:
    return Chat(chatml_folder)


@pytest.fixture(scope="module")
def llama2(llama2_folder: Path) -> Chat:
    return Chat(llama2_folder)


def turns(contents: list[str]) -> list[Message]:
    return [Message(role="assistant" if i % 2 else "user", content=content) for i, content in enumerate(contents)]


def test_chatml_keeps_the_token_that_begins_the_first_turn(chatml: Chat) -> None:
    encoded = chatml.encoder.encode(chatml.encoder.render(turns(["Hi"])))
    assert encoded.prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert encoded.token_ids == chatml.tokenizer.encode(encoded.prompt)
    begin = chatml.tokenizer.bos_token_id
    assert encoded.token_ids[0] == begin
    assert encoded.token_ids.count(begin) == 2


def test_llama2_has_its_bos_in_the_tokens_and_not_in_the_text(llama2: Chat) -> None:
    rendered = llama2.encoder.render(turns(["Hi"]))
    assert rendered == "<s>[INST] Hi [/INST]"
    encoded = llama2.encoder.encode(rendered)
    assert encoded.prompt == "[INST] Hi [/INST]"
    assert encoded.token_ids[0] == llama2.tokenizer.bos_token_id
    assert encoded.token_ids.count(llama2.tokenizer.bos_token_id) == 1
    twice = llama2.tokenizer.encode(rendered)
    assert twice[:2] == [llama2.tokenizer.bos_token_id] * 2, "what an engine would make of the text as rendered"


@pytest.mark.parametrize("text", ["<s>Hi", "<s><s>Hi", "Hi"])
def test_a_text_of_the_clients_gets_one_bos_too(llama2: Chat, text: str) -> None:
    encoded = llama2.encoder.encode(text)
    assert encoded.prompt == "Hi"
    assert encoded.token_ids == llama2.tokenizer.encode("Hi")


@given(st.lists(CONTENTS, min_size=1, max_size=5))
def test_the_text_alone_gives_an_engine_the_same_tokens(chatml: Chat, llama2: Chat, contents: list[str]) -> None:
    for chat in (chatml, llama2):
        encoded = chat.encoder.encode(chat.encoder.render(turns(contents)))
        assert chat.tokenizer.encode(encoded.prompt) == encoded.token_ids
        assert encoded.token_ids[0] == chat.tokenizer.bos_token_id
        turn_tokens = len(contents) + 1 if chat is chatml else 1
        assert encoded.token_ids.count(chat.tokenizer.bos_token_id) == turn_tokens


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 2))
def test_any_text_gives_an_engine_the_same_tokens(chatml: Chat, llama2: Chat, text: str, leading: int) -> None:
    for chat in (chatml, llama2):
        encoded = chat.encoder.encode(chat.tokenizer.bos_token * leading + text)
        assert chat.tokenizer.encode(encoded.prompt) == encoded.token_ids
    assert encoded.token_ids[0] == llama2.tokenizer.bos_token_id
    assert encoded.token_ids[1:2] != [llama2.tokenizer.bos_token_id]


def test_what_the_template_refuses_is_refused_in_its_words(llama2: Chat) -> None:
    conversation = [Message(role="user", content="a"), Message(role="user", content="b")]
    with pytest.raises(RequestError) as refused:
        llama2.encoder.render(conversation)
    assert str(refused.value) == (
        'the chat template of "models/tiny" refuses "messages": '
        "Conversation roles must alternate user/assistant/user/..."
    )
    assert refused.value.code == "INVALID_ARG"


def test_without_a_template_only_finished_prompts_are_taken(tmp_path: Path) -> None:
    tiny_model.write_llama2_tokenizer(tmp_path, template=None)
    chat = Chat(tmp_path)
    with pytest.raises(RequestError) as refused:
        chat.encoder.render(turns(["Hi"]))
    assert str(refused.value) == (
        '"messages" needs a chat template and the tokenizer in "models/tiny" has none: '
        'name a file with "chat_template" in model.json, or send a finished prompt as "text_input"'
    )
    assert refused.value.code == "UNSUPPORTED"
    assert chat.encoder.encode("Hi").prompt == "Hi"


def test_the_description_says_where_the_bos_comes_from(chatml: Chat, llama2: Chat) -> None:
    assert chatml.encoder.description.endswith("with 340 tokens, a chat template, adds no BOS")
    assert llama2.encoder.description.endswith("with 420 tokens, a chat template, adds its BOS <s>")
