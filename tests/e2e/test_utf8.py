"""Never half a character: text outside ASCII arrives whole, however the tokens cut it."""

from __future__ import annotations

import pytest

from tests.e2e.asking import Model, Triton, Way, text_of
from tests.e2e.rungs import BASELINES, CHATS, LLM, conversation, sampling

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
TEXTS = [
    "你好,世界。今天天气很好。",
    "👩‍👩‍👧‍👦 🇫🇷 🏳️‍🌈 👍🏽",
    "e\N{COMBINING ACUTE ACCENT}a\N{COMBINING DIAERESIS}o\N{COMBINING TILDE}\N{COMBINING OGONEK} क्षि สวัสดี",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𓀀 🜁 𠜎",
]


@pytest.mark.parametrize("way", [Way.GRPC, Way.SSE], ids=lambda way: way.value)
@pytest.mark.parametrize("text", TEXTS, ids=["chinese", "emoji", "combining", "astral"])
def test_streamed_text_is_whole_characters(triton: Triton, way: Way, text: str) -> None:
    inputs = {
        "text_input": "Say it: ",
        "stream": True,
        "sampling_parameters": sampling(200, structured_outputs={"choice": [text]}),
        "return_num_output_tokens": True,
    }
    responses = triton.ask(way, LLM, inputs)
    texts = [response["text_output"][0] for response in responses]
    assert "".join(texts) == text
    assert not any(REPLACEMENT in piece for piece in texts)
    # The test is about characters of several tokens: there have to be some.
    assert sum(response["num_output_tokens"][0] for response in responses) > len(text.split())
    assert len(texts) > 3


@pytest.mark.parametrize("text", TEXTS, ids=["chinese", "emoji", "combining", "astral"])
def test_one_response_has_the_same_text(triton: Triton, text: str) -> None:
    inputs = {"text_input": text, "sampling_parameters": sampling(200, structured_outputs={"choice": [text]})}
    assert text_of(triton.ask(Way.GENERATE, LLM, inputs)) == text + text


@pytest.mark.parametrize("text", TEXTS, ids=["chinese", "emoji", "combining", "astral"])
def test_a_length_that_cuts_a_character_is_the_same_text_streamed_or_not(triton: Triton, text: str) -> None:
    for max_tokens in (2, 5, 7):
        parameters = sampling(max_tokens, structured_outputs={"choice": [text]})
        inputs = {"text_input": "x", "sampling_parameters": parameters, "exclude_input_in_output": True}
        whole = text_of(triton.ask(Way.GRPC, LLM, inputs))
        assert text_of(triton.ask(Way.GRPC, LLM, inputs | {"stream": True})) == whole


@pytest.mark.parametrize("model", [*BASELINES, *CHATS], ids=lambda model: model.name + model.version)
def test_the_other_rungs_stream_whole_characters_too(triton: Triton, model: Model) -> None:
    """They have no structured outputs: they are asked to go on with what they were told."""
    question = "重复这句话:你好,世界 👍🏽"
    prompt = f"{question}\n{question}\n重复"
    asked = {"messages": conversation(question)} if model in CHATS else {"text_input": prompt}
    inputs = {**asked, "sampling_parameters": sampling(16), "exclude_input_in_output": True}
    responses = triton.ask(Way.GRPC, model, inputs | {"stream": True})
    texts = [response["text_output"][0] for response in responses]
    assert not any(REPLACEMENT in text for text in texts[:-1])
    assert "".join(texts) == text_of(triton.ask(Way.GRPC, model, inputs))
    assert any(ord(character) > 127 for character in "".join(texts))
