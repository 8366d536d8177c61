"""Between prepared requests or chunks and the protobuf messages of GRPCInferenceService."""

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from tritonclient.grpc import service_pb2

from tools.client.completion import Chunk
from tools.client.contract import PreparedRequest, TensorSpec, TensorValues
from tools.client.errors import MalformedResponseError
from tools.client.request import Target

# tritonclient ships its generated messages without types.
ModelInferRequest: TypeAlias = Any
ModelInferResponse: TypeAlias = Any

_DTYPES = {"BOOL": np.dtype("?"), "INT32": np.dtype("<i4"), "UINT32": np.dtype("<u4"), "FP32": np.dtype("<f4")}


def encode_request(prepared: PreparedRequest) -> ModelInferRequest:
    """The one message that opens a ModelStreamInfer."""
    message = encode_tensors(
        prepared.target, prepared.tensors, prepared.contract.inputs, batched=prepared.contract.batched
    )
    message.id = prepared.request_id
    # Without it a backend that ends its stream with a bare final flag would leave the client guessing.
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, value in prepared.parameters.items():
        message.parameters[name].int64_param = value
    return message


def encode_tensors(
    target: Target, tensors: Mapping[str, TensorValues], specs: Mapping[str, TensorSpec], *, batched: bool
) -> ModelInferRequest:
    """A ModelInferRequest with these inputs, one-dimensional, or [1, n] for a batched model."""
    message = service_pb2.ModelInferRequest(model_name=target.model, model_version=_version_text(target))
    for name, values in tensors.items():
        datatype = specs[name].datatype
        shape = [1, len(values)] if batched else [len(values)]
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(_encode_values(values, datatype))
    return message


def decode_chunk(message: ModelInferResponse, target: Target, received_at: float) -> Chunk:
    """One response of a stream.

    Raises:
        MalformedResponseError: a tensor's bytes do not fit its type.
    """
    # The version is left empty on a response that carries nothing but the final flag.
    served_by = Target(message.model_name, int(message.model_version)) if message.model_version else None
    final = "triton_final_response" in message.parameters and message.parameters["triton_final_response"].bool_param
    return Chunk.from_outputs(decode_tensors(message, target), received_at, served_by, final=final)


def decode_tensors(message: ModelInferResponse, target: Target) -> dict[str, list[Any]]:
    """All outputs by name, flattened: str for BYTES, bool, int or float otherwise.

    Raises:
        MalformedResponseError: a tensor's bytes do not fit its type, or text is not UTF-8.
    """
    outputs = {}
    for tensor, raw in zip(message.outputs, message.raw_output_contents, strict=False):
        try:
            outputs[tensor.name] = _decode_values(raw, tensor.datatype)
        except (ValueError, struct.error) as error:
            raise MalformedResponseError(
                f'output "{tensor.name}" of type {tensor.datatype} cannot be read: {error}', target
            ) from error
    return outputs


def _version_text(target: Target) -> str:
    return "" if target.version is None else str(target.version)


def _encode_values(values: TensorValues, datatype: str) -> bytes:
    if datatype == "BYTES":
        encoded = [str(value).encode("utf-8") for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    return np.asarray(values, dtype=_DTYPES[datatype]).tobytes()


def _decode_values(raw: bytes, datatype: str) -> list[Any]:
    if datatype == "BYTES":
        return _decode_strings(raw)
    if datatype not in _DTYPES:
        raise ValueError("unknown type")
    # Almost every numeric output is one number, for which numpy is several times slower.
    if datatype == "UINT32" and len(raw) == 4:
        return [int.from_bytes(raw, "little")]
    values: list[Any] = np.frombuffer(raw, dtype=_DTYPES[datatype]).tolist()
    return values


def _decode_strings(raw: bytes) -> list[str]:
    texts = []
    offset = 0
    while offset < len(raw):
        (length,) = struct.unpack_from("<I", raw, offset)
        offset += 4
        if offset + length > len(raw):
            raise ValueError(f"an element of {length} bytes, of which only {len(raw) - offset} are there")
        texts.append(raw[offset : offset + length].decode("utf-8"))
        offset += length
    return texts
