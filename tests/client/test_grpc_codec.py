from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import InferResult, service_pb2

from tools.client.contract import TensorSpec
from tools.client.errors import MalformedResponseError
from tools.client.grpc_codec import decode_chunk, decode_tensors, encode_tensors
from tools.client.request import Target

TARGET = Target("llm_bf16", 2)


def response(name: str, datatype: str, raw: bytes) -> Any:
    message = service_pb2.ModelInferResponse(model_name="llm_bf16", model_version="2")
    message.outputs.add(name=name, datatype=datatype, shape=[1])
    message.raw_output_contents.append(raw)
    return message


def answer_with_its_own_inputs(tensors: dict[str, Any], specs: dict[str, TensorSpec]) -> Any:
    """A response whose outputs are the bytes of a request's inputs."""
    request = encode_tensors(TARGET, tensors, specs, batched=False)
    message = service_pb2.ModelInferResponse(model_name="llm_bf16", model_version="2")
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        message.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_output_contents.append(raw)
    return message


VALUES = {
    "BYTES": st.text(st.characters(exclude_categories=["Cs"])),
    "BOOL": st.booleans(),
    "INT32": st.integers(-(2**31), 2**31 - 1),
    "UINT32": st.integers(0, 2**32 - 1),
    "FP32": st.floats(width=32, allow_nan=False),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_what_is_encoded_is_decoded(data: st.DataObject, datatype: str) -> None:
    values = data.draw(st.lists(VALUES[datatype], min_size=1, max_size=5))
    message = answer_with_its_own_inputs({"t": values}, {"t": TensorSpec("t", datatype, (-1,), False)})

    assert decode_tensors(message, TARGET) == {"t": values}


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_strings_are_laid_out_as_tritonclient_does(values: list[str]) -> None:
    message = answer_with_its_own_inputs({"t": values}, {"t": TensorSpec("t", "BYTES", (-1,), False)})

    assert [value.decode() for value in InferResult(message).as_numpy("t")] == values


@pytest.mark.parametrize(
    ("datatype", "raw", "reason"),
    [
        ("BYTES", b"\x05\x00\x00\x00abc", "an element of 5 bytes, of which only 3 are there"),
        ("BYTES", b"\x05\x00", "unpack_from requires a buffer of at least 4 bytes"),
        ("BYTES", b"\x01\x00\x00\x00\xff", "'utf-8' codec can't decode"),
        ("INT32", b"\x01\x00", "buffer size must be a multiple of element size"),
        ("FP64", b"\x01\x00", "unknown type"),
    ],
)
def test_bytes_that_do_not_fit_their_type(datatype: str, raw: bytes, reason: str) -> None:
    with pytest.raises(MalformedResponseError) as failure:
        decode_chunk(response("text_output", datatype, raw), TARGET, 0.0)

    assert str(failure.value).startswith(
        f'model "llm_bf16:2": output "text_output" of type {datatype} cannot be read: {reason}'
    )


def test_a_bare_final_response() -> None:
    message = service_pb2.ModelInferResponse(model_name="llm_bf16")
    message.parameters["triton_final_response"].bool_param = True

    chunk = decode_chunk(message, TARGET, 3.5)

    assert chunk.final
    assert chunk.texts == ()
    assert chunk.served_by is None
    assert chunk.received_at == 3.5
    assert not chunk.carries_tokens
