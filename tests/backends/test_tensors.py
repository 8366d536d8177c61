"""The tensor contract: inputs to a wire request, deltas to responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fixtures.fake_pb_utils import InferenceRequest, InferenceResponse
from tools.backends.tensors import (
    ResponseOutlet,
    RoutedOutlet,
    TensorError,
    error_response,
    read_chat,
    read_request,
    read_tokenize,
    refuse,
    tokenized_response,
)
from tools.wire.error_codes import GRPC_NAMES
from tools.wire.messages import Delta, Failure, Flags, Request, Tokenize, Tokenized

# Reading


def read(inputs: dict[str, Any] | None = None, **arguments: Any) -> Request:
    return read_request(InferenceRequest({"text_input": "Hi", **(inputs or {})}, **arguments), 7)


def refusal(inputs: dict[str, Any], **arguments: Any) -> str:
    with pytest.raises(TensorError) as caught:
        read(inputs, **arguments)
    return str(caught.value)


def test_a_prompt_alone_gets_the_defaults_of_the_contract() -> None:
    assert read() == Request(
        key=7,
        request_id="",
        prompt="Hi",
        token_ids=None,
        images=[],
        parameters="{}",
        parameters_source="request parameters",
        embedding=None,
        stream=False,
        echo=True,
        flags=Flags(False, False, False, False, False),
        timeout_us=0,
        priority=0,
    )


def test_every_input_is_read() -> None:
    request = read(
        {
            "text_input": "你好 🙂",
            "input_ids": [1, 2, 3],
            "image": [b"aGk=", "aG8="],
            "stream": True,
            "sampling_parameters": '{"max_tokens": 3}',
            "exclude_input_in_output": True,
            "return_finish_reason": True,
            "return_cumulative_logprob": True,
            "return_logprobs": True,
            "return_num_input_tokens": True,
            "return_num_output_tokens": True,
            "embedding_request": '{"input": "x"}',
        },
        request_id="job-1",
        timeout_us=5000,
    )
    assert request == Request(
        key=7,
        request_id="job-1",
        prompt="你好 🙂",
        token_ids=[1, 2, 3],
        images=[b"aGk=", b"aG8="],
        parameters='{"max_tokens": 3}',
        parameters_source="sampling_parameters",
        embedding='{"input": "x"}',
        stream=True,
        echo=False,
        flags=Flags(True, True, True, True, True),
        timeout_us=5000,
        priority=0,
    )


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("return_finish_reason", "finish_reason"),
        ("return_cumulative_logprob", "cumulative_logprob"),
        ("return_logprobs", "logprobs"),
        ("return_num_input_tokens", "num_input_tokens"),
        ("return_num_output_tokens", "num_output_tokens"),
    ],
)
def test_each_flag_has_its_own_tensor(name: str, flag: str) -> None:
    assert read({name: True}).flags == Flags(**{flag: True})
    assert read({name: False}).flags == Flags()


@pytest.mark.parametrize("read_it", [read_request, read_tokenize, read_chat])
def test_a_request_parameter_that_is_not_utf8_is_named_with_its_byte(read_it: Callable[..., object]) -> None:
    request = InferenceRequest({"text_input": "a"})
    # As the stub does with whatever bytes came over HTTP.
    raw = b"{" + b" " * 99 + b'"user":"\xff"}'
    request.parameters = lambda: raw.decode()  # type: ignore[method-assign]
    with pytest.raises(TensorError, match=r"^a request parameter is not UTF-8: byte 0xff after") as found:
        read_it(request, 1)
    assert str(found.value).endswith(r' \"user\":\""')
    assert len(str(found.value)) < 120


def test_a_batch_dimension_of_one_is_read_away() -> None:
    request = read({
        "text_input": np.array([[b"Hi"]], np.object_),
        "stream": np.array([[True]]),
        "input_ids": np.array([[4, 5]], np.int32),
    })  # fmt: skip
    assert (request.prompt, request.stream, request.token_ids) == ("Hi", True, [4, 5])


def test_the_tensor_wins_over_the_request_parameters() -> None:
    own = {"max_tokens": 5}
    assert read(parameters=own).parameters == '{"max_tokens": 5}'
    assert read(parameters=own).parameters_source == "request parameters"
    with_tensor = read({"sampling_parameters": '{"n": 2}'}, parameters=own)
    assert with_tensor.parameters == '{"n": 2}'
    assert with_tensor.parameters_source == "sampling_parameters"


@pytest.mark.parametrize(
    ("stream", "exclude", "echo"),
    [
        (None, None, True),
        (False, None, True),
        (True, None, False),
        (False, True, False),
        (False, False, True),
        (True, True, False),
    ],
)
def test_the_prompt_precedes_the_answer_unless_streamed_or_excluded(
    stream: bool | None, exclude: bool | None, echo: bool
) -> None:
    given = {"stream": stream, "exclude_input_in_output": exclude}
    assert read({name: value for name, value in given.items() if value is not None}).echo is echo


def test_a_stream_cannot_repeat_the_prompt() -> None:
    assert refusal({"stream": True, "exclude_input_in_output": False}) == (
        '"exclude_input_in_output" is false and "stream" is true: a stream cannot repeat the prompt, '
        'leave "exclude_input_in_output" out or set it to true'
    )


@pytest.mark.parametrize("name", ["text_input", "sampling_parameters", "embedding_request"])
def test_text_that_is_not_utf8_is_named_with_its_byte(name: str) -> None:
    assert refusal({name: b"ab\xff"}) == f'"{name}" is not UTF-8: byte 2 is 0xff'


@pytest.mark.parametrize("name", ["text_input", "stream", "sampling_parameters", "return_logprobs"])
@pytest.mark.parametrize("count", [0, 2])
def test_single_values_are_single(name: str, count: int) -> None:
    value = np.array([b"x"] * count, np.object_) if "text" in name or "sampling" in name else np.array([True] * count)
    assert refusal({name: value}) == f'"{name}" has {count} elements: it takes exactly 1'


def test_timeout_and_priority_are_request_parameters_or_tritons_own() -> None:
    both = read(parameters={"timeout": 3000, "priority": 2}, timeout_us=9000)
    assert (both.timeout_us, both.priority) == (3000, 2)
    assert read(timeout_us=9000).timeout_us == 9000
    # Over gRPC a priority can only stand among the sampling parameters.
    assert read({"sampling_parameters": '{"priority": 4}'}).priority == 4
    assert read({"sampling_parameters": '{"priority": 4}'}, parameters={"priority": 1}).priority == 1


@pytest.mark.parametrize(
    ("value", "shown"),
    [("soon", '"soon"'), (-1, "-1"), (1.5, "1.5"), (True, "true"), (None, "null"), (2**63, str(2**63)), ([], "[]")],
)
@pytest.mark.parametrize("name", ["timeout", "priority"])
def test_a_wrong_timeout_or_priority_is_named(name: str, value: Any, shown: str) -> None:
    assert refusal({}, parameters={name: value}) == (
        f'parameter "{name}" is {shown}: it takes a whole number, at least 0 and at most 9223372036854775807'
    )


def test_the_text_of_a_refusal_stays_short() -> None:
    assert len(refusal({}, parameters={"timeout": "x" * 100_000})) < 300


@pytest.mark.parametrize("text", ['{"timeout"', '["timeout"]', '{"timeout": ' + "[" * 100_000, '"timeout"'])
def test_what_is_no_json_object_is_left_to_the_engine(text: str) -> None:
    assert read(parameters=text).parameters == text


# Responses


def outlet(batched: bool = False, **fields: Any) -> tuple[ResponseOutlet, list[InferenceResponse], InferenceRequest]:
    request = InferenceRequest({"text_input": "Hi"})
    wire = Request(7, "", "Hi", **fields)
    return ResponseOutlet(request, wire, batched=batched), request.sender.responses, request


ALL = Flags(True, True, True, True, True)


def test_without_flags_only_the_text_is_sent() -> None:
    sending, responses, request = outlet(stream=True)
    sending.send(Delta(7, ["He"], [1], [None], 2))
    assert responses[0].names() == ["text_output"]
    assert responses[0].values("text_output") == ["He"]
    assert not request.sender.finished.is_set()


def test_every_output_has_name_type_and_shape_of_the_contract() -> None:
    sending, responses, request = outlet(stream=True, flags=ALL)
    delta = Delta(
        7, ["a", "é"], [1, 2], [None, "stop"], 5, final=True,
        cumulative_logprobs=[-0.5, None], logprobs=[['{"1": 2}'], ['{"3": 4}', '{"5": 6}']],
    )  # fmt: skip
    sending.send(delta)
    (response,) = responses
    tensors = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
    assert [(name, array.dtype, array.shape) for name, array in tensors.items()] == [
        ("text_output", np.object_, (2,)),
        ("finish_reason", np.object_, (2,)),
        ("cumulative_logprob", np.float32, (2,)),
        ("logprobs", np.object_, (2,)),
        ("num_input_tokens", np.uint32, (1,)),
        ("num_output_tokens", np.uint32, (2,)),
    ]
    assert response.values("text_output") == ["a", "é"]
    assert response.values("finish_reason") == ["None", "stop"]
    assert response.values("cumulative_logprob")[0] == -0.5
    assert np.isnan(response.values("cumulative_logprob")[1])
    assert response.values("logprobs") == ['[{"1": 2}]', '[{"3": 4}, {"5": 6}]']
    assert response.values("num_input_tokens") == [5]
    assert response.values("num_output_tokens") == [1, 2]
    assert request.sender.finished.is_set()


def test_logprobs_that_were_not_computed_are_null() -> None:
    sending, responses, _ = outlet(flags=Flags(logprobs=True))
    sending.send(Delta(7, ["a", "b"], [1, 1], [None, None]))
    assert responses[0].values("logprobs") == ["null", "null"]


def test_the_prompts_logprobs_come_with_the_flag_for_logprobs() -> None:
    delta = Delta(7, ["a"], [1], [None], prompt_logprobs=["null", '{"1": 2}'])
    asked, with_flag, _ = outlet(flags=Flags(logprobs=True))
    not_asked, without_flag, _ = outlet(flags=Flags(num_input_tokens=True))
    asked.send(delta)
    not_asked.send(delta)
    assert with_flag[0].values("prompt_logprobs") == ['[null, {"1": 2}]']
    assert without_flag[0].names() == ["text_output", "num_input_tokens"]


def test_a_batched_model_gets_its_batch_dimension() -> None:
    sending, responses, _ = outlet(batched=True, flags=ALL)
    sending.send(Delta(7, ["a", "b"], [1, 1], [None, None], 3, cumulative_logprobs=[-1.0, -2.0]))
    shapes = {tensor.name(): tensor.as_numpy().shape for tensor in responses[0].output_tensors()}
    assert shapes == {
        "text_output": (1, 2),
        "finish_reason": (1, 2),
        "cumulative_logprob": (1, 2),
        "logprobs": (1, 2),
        "num_input_tokens": (1, 1),
        "num_output_tokens": (1, 2),
    }


def test_the_prompt_is_repeated_before_each_sequence_when_asked_for() -> None:
    sending, responses, _ = outlet(echo=True)
    sending.send(Delta(7, [" a", " b"], [1, 1], ["stop", "stop"], final=True))
    assert responses[0].values("text_output") == ["Hi a", "Hi b"]


def test_an_embedding_never_repeats_the_prompt() -> None:
    sending, responses, _ = outlet(echo=True, embedding="{}")
    sending.send(Delta(7, ["[0.5]"], [0], ["stop"], final=True))
    assert responses[0].values("text_output") == ["[0.5]"]


@pytest.mark.parametrize("code", ["INVALID_ARG", "UNAVAILABLE", "CANCELLED", "INTERNAL", "UNSUPPORTED", "NOT_FOUND"])
def test_a_failure_is_the_last_response_with_its_code(code: Any) -> None:
    sending, responses, request = outlet()
    sending.send(Delta(7, [], [], [], final=True, failure=Failure(code, "why")))
    (response,) = responses
    error = response.error()
    assert error is not None
    assert (error.code(), error.message()) == (code, f"why [{GRPC_NAMES[code]}]")
    assert response.output_tensors() == []
    assert request.sender.finished.is_set()


def test_text_before_a_failure_is_still_the_streams() -> None:
    sending, responses, request = outlet(stream=True)
    sending.send(Delta(7, ["half"], [1], [None], final=True, failure=Failure("UNAVAILABLE", "died")))
    assert responses[0].values("text_output") == ["half"]
    assert [response.has_error() for response in responses] == [False, True]
    assert request.sender.finished.is_set()


def test_without_stream_a_failure_is_no_partial_answer() -> None:
    sending, responses, _ = outlet(stream=False)
    sending.send(Delta(7, ["half"], [1], [None], final=True, failure=Failure("UNAVAILABLE", "died")))
    assert [response.has_error() for response in responses] == [True]


def test_the_outlet_asks_triton_whether_the_client_is_there() -> None:
    sending, _, request = outlet()
    assert not sending.is_cancelled()
    request.sender.cancelled = True
    assert sending.is_cancelled()


def test_a_request_whose_tensors_cannot_be_read_is_answered() -> None:
    request = InferenceRequest({})
    refuse(request, TensorError("wrong"))
    error = request.sender.error
    assert error is not None
    assert (error.code(), error.message()) == ("INVALID_ARG", "wrong [INVALID_ARGUMENT]")
    assert request.sender.finished.is_set()


# The tokenizer's


def test_a_chat_is_read() -> None:
    request = InferenceRequest(
        {"messages": '[{"role": "user"}]', "exclude_input_in_output": False}, parameters={"a": 1}
    )
    assert read_tokenize(request, 3) == (Tokenize(3, '[{"role": "user"}]', None, '{"a": 1}'), False)
    assert read_tokenize(InferenceRequest({"text_input": "Hi"}), 4) == (Tokenize(4, None, "Hi", "{}"), True)


def test_tokens_are_answered_as_tensors() -> None:
    response = tokenized_response(Tokenized(3, "<s>你", [1, 2]), exclude_input=True)
    assert response.values("prompt") == ["<s>你"]
    assert response.values("input_ids") == [1, 2]
    assert response.values("num_input_tokens") == [2]
    assert response.values("exclude_input_in_output") == [True]


def test_a_chat_that_cannot_be_rendered_is_an_error() -> None:
    failure = Failure("INVALID_ARG", "no role")
    response = tokenized_response(Tokenized(3, "", [], failure), exclude_input=True)
    assert response.error().message() == error_response(failure).error().message() == "no role [INVALID_ARGUMENT]"


# The router's


def read_chat_of(inputs: dict[str, Any], parameters: Any = None) -> tuple[Request, Tokenize | None]:
    return read_chat(InferenceRequest(inputs, parameters), 7)


def test_a_chat_is_to_be_tokenized() -> None:
    wire, tokenize = read_chat_of({"messages": "[]", "stream": True})
    assert tokenize == Tokenize(7, "[]", None)
    assert (wire.key, wire.prompt, wire.stream, wire.echo) == (7, "", True, False)
    assert read_chat_of({"text_input": "Hi"})[1] == Tokenize(7, None, "Hi")
    assert read_chat_of({})[1] == Tokenize(7, None, None), "the tokenizer says what is missing"


def test_tokens_and_what_is_to_be_embedded_are_not() -> None:
    assert read_chat_of({"input_ids": [1, 2], "text_input": ""})[1] is None
    assert read_chat_of({"embedding_request": "{}"})[1] is None


@pytest.mark.parametrize(("given", "echo"), [(None, False), (True, False), (False, True)])
def test_a_chat_repeats_its_prompt_on_demand_only(given: bool | None, echo: bool) -> None:
    inputs = {"text_input": "Hi"} | ({} if given is None else {"exclude_input_in_output": given})
    assert read_chat_of(inputs)[0].echo is echo


def test_the_first_response_with_outputs_says_who_answers() -> None:
    request = InferenceRequest({"text_input": "Hi"})
    wire = Request(7, "", "Hi", stream=True)
    outlet = RoutedOutlet(request, wire)
    outlet.serve_by("llm_bf16", 2)
    outlet.serve_by("llm_awq", 3)
    outlet.send(Delta(7, ["a"], [1], [None]))
    outlet.send(Delta(7, ["b"], [1], ["stop"], final=True))
    first, second = request.sender.responses
    assert (first.values("served_model"), first.values("served_version")) == (["llm_awq"], [3])
    assert [str(tensor.as_numpy().dtype) for tensor in first.output_tensors()] == ["object", "object", "int32"]
    assert second.names() == ["text_output"]
