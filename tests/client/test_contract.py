import json

import pytest

from tests.client.fakes.triton import engine, ensemble, tokenizer
from tools.client.contract import ModelContract, Prompt, needs_template, prepare
from tools.client.errors import MalformedResponseError, RequestRefusedError
from tools.client.request import ChatRequest, GenerateRequest, Message, Target

TARGET = Target("llm_bf16", 1)
ENGINE = ModelContract.from_config(engine("llm_bf16").config())
ENSEMBLE = ModelContract.from_config(ensemble("chat_bf16").config())
TOKENIZER = ModelContract.from_config(tokenizer().config())
MESSAGES = (Message("system", "be brief"), Message("user", "hé 你好"))


def test_config_as_either_protocol_writes_it() -> None:
    config = {
        "name": "m",
        "max_batch_size": 8,
        # HTTP writes numbers, protobuf's JSON form writes int64 as strings.
        "input": [{"name": "input_ids", "data_type": "TYPE_INT32", "dims": ["-1"], "optional": True}],
        "output": [{"name": "text_output", "data_type": "TYPE_STRING", "dims": [1]}],
        "model_transaction_policy": {"decoupled": True},
        "parameters": {"MAX": {"string_value": "7"}},
    }

    contract = ModelContract.from_config(config)

    assert contract.batched
    assert contract.decoupled
    assert contract.inputs["input_ids"].dims == (-1,)
    assert contract.inputs["input_ids"].optional
    assert contract.outputs["text_output"].datatype == "BYTES"
    assert contract.parameters == {"MAX": "7"}


def test_protobuf_leaves_out_what_is_at_its_default() -> None:
    contract = ModelContract.from_config({"name": "m"})

    assert not contract.batched
    assert not contract.decoupled
    assert contract.inputs == {}


def test_a_prompt_on_an_engine() -> None:
    request = GenerateRequest(prompt="once", sampling={"max_tokens": 5, "stop": ["é"]}, request_id="r-1", priority=1)

    prepared = prepare(request, TARGET, ENGINE)

    assert prepared.tensors == {
        "text_input": ["once"],
        "sampling_parameters": ['{"max_tokens": 5, "stop": ["é"]}'],
        "stream": [True],
        "exclude_input_in_output": [True],
        "return_finish_reason": [True],
        "return_num_input_tokens": [True],
        "return_num_output_tokens": [True],
    }
    assert prepared.request_id == "r-1"
    assert prepared.parameters == {"priority": 1}


def test_options_of_an_engine() -> None:
    request = GenerateRequest(
        prompt="once",
        input_ids=[7, 8],
        images=["aGk="],
        stream=False,
        echo=True,
        deadline_s=1.5,
        return_finish_reason=False,
        return_logprobs=True,
        return_cumulative_logprob=True,
    )

    prepared = prepare(request, TARGET, ENGINE)

    assert prepared.tensors["input_ids"] == [7, 8]
    assert prepared.tensors["image"] == ["aGk="]
    assert prepared.tensors["stream"] == [False]
    assert prepared.tensors["exclude_input_in_output"] == [False]
    assert prepared.tensors["return_finish_reason"] == [False]
    assert prepared.tensors["return_logprobs"] == [True]
    assert prepared.tensors["return_cumulative_logprob"] == [True]
    assert "sampling_parameters" not in prepared.tensors
    assert prepared.parameters == {"timeout": 1_500_000}


def test_every_request_has_an_id_of_its_own() -> None:
    request = GenerateRequest(prompt="x")

    assert len({prepare(request, TARGET, ENGINE).request_id for _ in range(3)} - {""}) == 3


def test_a_conversation_goes_to_an_ensemble_as_it_is() -> None:
    request = ChatRequest(messages=MESSAGES)

    assert not needs_template(request, ENSEMBLE)
    messages = json.loads(prepare(request, TARGET, ENSEMBLE).tensors["messages"][0])
    assert messages == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hé 你好"}]


def test_a_conversation_goes_to_an_engine_as_a_prompt_with_its_tokens() -> None:
    request = ChatRequest(messages=MESSAGES)

    assert needs_template(request, ENGINE)
    prepared = prepare(request, TARGET, ENGINE, Prompt("<user> hé", [1, 2, 3], 3))

    assert prepared.tensors["text_input"] == ["<user> hé"]
    assert prepared.tensors["input_ids"] == [1, 2, 3]
    assert prepared.num_input_tokens == 3
    assert "messages" not in prepared.tensors


def test_an_engine_without_input_ids_gets_the_text_alone() -> None:
    inputs = {name: spec for name, spec in ENGINE.inputs.items() if name != "input_ids"}
    contract = ModelContract("llm", False, True, inputs, ENGINE.outputs, {})

    prepared = prepare(ChatRequest(messages=MESSAGES), TARGET, contract, Prompt("hi", [1], 1))

    assert prepared.tensors["text_input"] == ["hi"]
    assert "input_ids" not in prepared.tensors


def test_wishes_that_a_model_cannot_be_told_are_left_out() -> None:
    contract = ModelContract("m", False, True, {"text_input": ENGINE.inputs["text_input"]}, {}, {})

    assert prepare(GenerateRequest(prompt="x"), TARGET, contract).tensors == {"text_input": ["x"]}


def test_what_changes_the_answer_is_never_left_out() -> None:
    contract = ModelContract("m", False, True, {"text_input": ENGINE.inputs["text_input"]}, {}, {})

    with pytest.raises(RequestRefusedError) as refusal:
        prepare(GenerateRequest(prompt="x", sampling={"n": 2}), TARGET, contract)

    assert str(refusal.value) == (
        'model "llm_bf16:1": it has no input "sampling_parameters", which this request needs; '
        'its inputs are "text_input" (INVALID_ARGUMENT)'
    )


def test_bytes_that_were_not_utf8_are_refused() -> None:
    typed = b"caf\xe9".decode("utf-8", "surrogateescape")

    with pytest.raises(RequestRefusedError) as refusal:
        prepare(GenerateRequest(prompt=typed), TARGET, ENGINE)

    assert str(refusal.value) == (
        'model "llm_bf16:1": "text_input" holds \'\\udce9\', which is no character: is the input UTF-8? '
        "(INVALID_ARGUMENT)"
    )


def test_outputs_of_a_tokenizer() -> None:
    outputs = {"prompt": ["hi"], "input_ids": [1, 2], "num_input_tokens": [2], "exclude_input_in_output": [True]}

    assert Prompt.from_outputs(outputs, Target("chat_tokenizer")) == Prompt("hi", [1, 2], 2)


def test_outputs_of_something_else() -> None:
    with pytest.raises(MalformedResponseError) as failure:
        Prompt.from_outputs({"prompt": ["hi"]}, Target("chat_tokenizer"))

    assert str(failure.value) == (
        "model \"chat_tokenizer\": its response lacks 'input_ids', so it is no chat tokenizer (MALFORMED)"
    )


def test_the_tokenizers_contract_is_read_like_any_other() -> None:
    assert TOKENIZER.takes_messages
    assert not TOKENIZER.decoupled
