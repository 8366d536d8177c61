"""`chat_tokenizer` and the ensembles behind it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.e2e.asking import Model, RefusedError, Triton, Way, text_of, tokens_of
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import at_rest, settled
from tests.e2e.rungs import CHAT_EAGLE, CHATS, LLM, TOKENIZER, conversation, sampling
from tools.bootstrap.layout import Layout

QUESTION = "What is the capital of France?"
HISTORY = json.dumps(
    [
        {"role": "system", "content": "You answer in one word."},
        {"role": "user", "content": "What is the capital of Spain?"},
        {"role": "assistant", "content": "Madrid."},
        {"role": "user", "content": QUESTION},
    ]
)

every_chat = pytest.mark.parametrize("model", CHATS, ids=lambda model: model.name)
every_way = pytest.mark.parametrize("way", Way, ids=lambda way: way.value)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """The engine's tokenizer."""
    return AutoTokenizer.from_pretrained(Layout.of_this_checkout().models / "smollm2-135m-instruct")


@every_chat
@every_way
def test_a_conversation_is_answered(triton: Triton, model: Model, way: Way) -> None:
    inputs = {
        "messages": HISTORY,
        "stream": way is not Way.GENERATE,
        "sampling_parameters": sampling(8),
        "return_finish_reason": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }
    responses = triton.ask(way, model, inputs)
    assert "Paris" in text_of(responses)
    # The prompt is not repeated, templated or not.
    assert "<|im_start|>" not in text_of(responses)
    assert "Madrid" not in text_of(responses)
    assert responses[-1]["finish_reason"][0] in ("stop", "length")
    assert responses[0]["num_input_tokens"] == triton.infer(TOKENIZER, {"messages": HISTORY})["num_input_tokens"]
    assert 0 < tokens_of(responses) <= 8


@every_chat
def test_it_streams_token_by_token(triton: Triton, model: Model) -> None:
    inputs = {
        "messages": conversation("Count from one to ten."),
        "stream": True,
        "sampling_parameters": sampling(12, ignore_eos=True),
        "return_num_output_tokens": True,
    }
    responses = triton.ask(Way.SSE, model, inputs)
    # One response per token; a slow reader may find two merged. With drafts a step brings up to four.
    assert (3 if model is CHAT_EAGLE else 6) <= len(responses) <= 12
    assert tokens_of(responses) == 12


@every_chat
def test_text_input_is_a_prompt_without_template(triton: Triton, model: Model) -> None:
    inputs = {"text_input": "The capital of France is", "sampling_parameters": sampling(2)}
    assert text_of(triton.ask(Way.GENERATE, model, inputs)) == " Paris."


@every_chat
def test_the_prompt_is_repeated_when_asked_for(triton: Triton, model: Model) -> None:
    prompt = triton.infer(TOKENIZER, {"messages": HISTORY})["prompt"][0]
    inputs = {"messages": HISTORY, "exclude_input_in_output": False, "sampling_parameters": sampling(2)}
    assert text_of(triton.ask(Way.GENERATE, model, inputs)).startswith(prompt)


def test_the_tokens_are_those_of_the_engine(triton: Triton, tokenizer: Any) -> None:
    for inputs in ({"messages": HISTORY}, {"messages": conversation("你好 👍🏽")}, {"text_input": QUESTION}):
        outputs = triton.infer(TOKENIZER, inputs)
        assert outputs["input_ids"] == tokenizer.encode(outputs["prompt"][0])
        assert outputs["num_input_tokens"] == [len(outputs["input_ids"])]
    assert triton.infer(TOKENIZER, {"text_input": QUESTION})["prompt"] == [QUESTION]


def test_a_conversation_becomes_what_the_template_says(triton: Triton, tokenizer: Any) -> None:
    outputs = triton.infer(TOKENIZER, {"messages": HISTORY})
    rendered = tokenizer.apply_chat_template(json.loads(HISTORY), tokenize=False, add_generation_prompt=True)
    assert outputs["prompt"] == [rendered]
    # This template writes the BOS itself (it opens each turn), and the tokenizer adds none.
    assert outputs["input_ids"].count(tokenizer.bos_token_id) == rendered.count(tokenizer.bos_token)
    assert outputs["input_ids"][0] == tokenizer.bos_token_id
    assert outputs["input_ids"][1] != tokenizer.bos_token_id


def test_an_engine_that_sees_only_the_text_generates_from_the_same_tokens(triton: Triton) -> None:
    """As NVIDIA's backend does, which knows no `input_ids`."""
    outputs = triton.infer(TOKENIZER, {"messages": HISTORY})
    prompt = {"text_input": outputs["prompt"][0], "sampling_parameters": sampling(6), "return_num_input_tokens": True}
    [by_text] = triton.ask(Way.GRPC, LLM, prompt)
    [by_ids] = triton.ask(Way.GRPC, LLM, prompt | {"input_ids": outputs["input_ids"]})
    assert by_text == by_ids
    assert by_text["num_input_tokens"] == outputs["num_input_tokens"]


WRONG = {
    "not JSON": ({"messages": "Hello"}, '"messages" is not valid JSON ('),
    "no list": ({"messages": '{"role": "user"}'}, '"messages" must be a JSON list such as [{"role": "user"'),
    "empty list": ({"messages": "[]"}, '"messages" is an empty list: it takes at least one message'),
    "no object": ({"messages": '["Hello"]'}, 'message 0 is "Hello": it must be an object such as'),
    "unknown role": (
        {"messages": '[{"role": "usr", "content": "Hello"}]'},
        'message 0 has the role "usr": it takes one of "system", "user", "assistant"',
    ),
    "system not first": (
        {"messages": '[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]'},
        'message 1 has the role "system": only message 0 may have it',
    ),
    "no content": ({"messages": '[{"role": "user"}]'}, 'message 0 ("user") has no "content": it takes a string or'),
    "empty content": (
        {"messages": '[{"role": "user", "content": ""}]'},
        'message 0 ("user"): "content" is empty: leave the message out or write something',
    ),
    "content of another type": (
        {"messages": '[{"role": "user", "content": 5}]'},
        'message 0 ("user"): "content" is 5: it takes a string or a list of',
    ),
    "unknown key": (
        {"messages": '[{"role": "user", "contents": "a"}]'},
        'message 0 has the unknown key "contents": did you mean "content"?',
    ),
    "half a surrogate pair": (
        {"messages": '[{"role": "user", "content": "\\ud83d"}]'},
        'message 0 ("user"): "content" holds half a surrogate pair',
    ),
    "empty text": ({"text_input": ""}, '"text_input" is empty: there is nothing to answer'),
    "nothing": ({}, 'neither "messages" nor "text_input" was sent: send one of them'),
    "both": ({"messages": HISTORY, "text_input": "a"}, 'both "messages" and "text_input" were sent: send one of them'),
    "too many tokens": ({"text_input": "a " * 3000}, '"text_input" has 3001 tokens: the context takes 2048'),
    "too many tokens in messages": (
        {"messages": conversation("a " * 3000)},
        '"messages" has 3',
    ),
    "too many bytes": (
        {"text_input": "a" * 65537},
        '"text_input" has 65537 bytes: MAX_PROMPT_BYTES allows at most 65536',
    ),
}


@pytest.mark.parametrize(("inputs", "text"), WRONG.values(), ids=WRONG)
def test_the_tokenizer_refuses_what_is_wrong_with_the_conversation(
    triton: Triton, inputs: dict[str, str], text: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        triton.infer(TOKENIZER, {"exclude_input_in_output": True, **inputs})
    assert caught.value.code == "INVALID_ARGUMENT"
    assert caught.value.message.startswith(text)


def test_the_engine_never_sees_what_the_tokenizer_refuses(server: Deployment, triton: Triton) -> None:
    before = at_rest(server.address, LLM.name)
    for inputs, text in WRONG.values():
        for model in CHATS:
            with pytest.raises(RefusedError) as caught:
                triton.ask(Way.GRPC, model, {"stream": True, **inputs})
            assert caught.value.message.startswith(f"in ensemble '{model.name}', {text}")
            assert caught.value.code == "INVALID_ARGUMENT"
    # A request that it does see is the only one it has counted.
    triton.ask(Way.GRPC, LLM, {"text_input": "One", "sampling_parameters": sampling(1)})
    name = "vllm:e2e_request_latency_seconds_count"
    counted = settled(server.address, LLM.name, lambda scrape: scrape[name] > before[name]).since(before)
    assert counted[name] == 1
    assert counted.at("ladder_requests_rejected_total", reason="invalid") == 0
    assert counted["vllm:generation_tokens_total"] == 1


@every_chat
def test_what_the_engine_refuses_comes_through_the_ensemble(triton: Triton, model: Model) -> None:
    inputs = {"messages": HISTORY, "sampling_parameters": '{"temprature": 0}', "stream": True}
    with pytest.raises(RefusedError) as caught:
        triton.ask(Way.GRPC, model, inputs)
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "in ensemble" in caught.value.message
    assert "temprature" in caught.value.message
    assert 'did you mean "temperature"?' in caught.value.message
