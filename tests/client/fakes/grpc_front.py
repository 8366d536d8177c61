"""GRPCInferenceService over a FakeTriton."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from google.protobuf.json_format import ParseDict
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.client.fakes.triton import Break, Fail, FakeTriton, NoFinal, Say, Seen, WaitForCancel

_DTYPES = {"BOOL": "?", "INT32": "<i4", "UINT32": "<u4", "FP32": "<f4"}
_DATATYPES = {"TYPE_STRING": "BYTES"}


@contextmanager
def serve_grpc(triton: FakeTriton, pem: bytes | None = None) -> Iterator[int]:
    """Serve on a free port of loopback; yields the port. `pem`, a key and its certificate, is for TLS."""
    server = grpc.server(ThreadPoolExecutor(max_workers=16))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(triton), server)
    if pem is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(pem, pem)]))
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait()


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, triton: FakeTriton) -> None:
        self._triton = triton

    def ServerLive(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerLiveResponse(live=self._triton.live)

    def ServerReady(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerReadyResponse(ready=self._triton.ready)

    def ServerMetadata(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerMetadataResponse(name="triton", version="2.51.0")

    def RepositoryIndex(self, request: Any, context: Any) -> Any:
        return ParseDict({"models": self._triton.index()}, service_pb2.RepositoryIndexResponse())

    def ModelConfig(self, request: Any, context: Any) -> Any:
        config = self._triton.config(request.name, request.version)
        if isinstance(config, str):
            context.abort(grpc.StatusCode.NOT_FOUND, config)
        return ParseDict({"config": config}, service_pb2.ModelConfigResponse())

    def ModelStatistics(self, request: Any, context: Any) -> Any:
        return ParseDict({"model_stats": self._triton.statistics()}, service_pb2.ModelStatisticsResponse())

    def ModelInfer(self, request: Any, context: Any) -> Any:
        found = self._triton.find(request.model_name, request.model_version)
        if isinstance(found, str):
            context.abort(grpc.StatusCode.NOT_FOUND, found)
        model, version = found
        (step,) = model.script(self._see(request))
        if isinstance(step, Fail):
            context.abort(grpc.StatusCode[step.code], step.text)
        return _response(request, version, step.values, model.outputs, batched=model.max_batch_size > 0)

    def ModelStreamInfer(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        context.add_callback(lambda: None if context.is_active() else self._triton.cancelled.set())
        # It ends a real server: no request may ask for it.
        assert "triton_grpc_error" not in dict(context.invocation_metadata())
        for request in requests:
            found = self._triton.find(request.model_name, request.model_version)
            if isinstance(found, str):
                yield service_pb2.ModelStreamInferResponse(error_message=found)
                continue
            model, version = found
            batched = model.max_batch_size > 0
            wants_empty_final = request.parameters["triton_enable_empty_final_response"].bool_param
            ended = False
            for step in model.script(self._see(request)):
                match step:
                    case Say():
                        response = _response(request, version, step.outputs(), model.outputs, batched=batched)
                        response.parameters["triton_final_response"].bool_param = step.final
                        ended = ended or step.final
                        yield service_pb2.ModelStreamInferResponse(infer_response=response)
                    case Fail():
                        yield service_pb2.ModelStreamInferResponse(error_message=step.text)
                        ended = True
                    case Break():
                        context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
                    case WaitForCancel():
                        gone = _when_gone(context)
                        if not gone.wait(step.limit_s):
                            self._triton.not_cancelled.set()
                        return
                    case NoFinal():
                        ended = True
                    case _:
                        raise AssertionError(f"{step} cannot be said over gRPC")
            if not ended and wants_empty_final:
                response = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
                response.parameters["triton_final_response"].bool_param = True
                yield service_pb2.ModelStreamInferResponse(infer_response=response)

    def _see(self, request: Any) -> Seen:
        inputs = {}
        for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
            inputs[tensor.name] = _decoded(raw, tensor.datatype)
        seen = Seen(
            model=request.model_name,
            version=request.model_version,
            request_id=request.id,
            inputs=inputs,
            shapes={tensor.name: list(tensor.shape) for tensor in request.inputs},
            parameters={
                key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in request.parameters.items()
            },
        )
        self._triton.seen.append(seen)
        return seen


def _when_gone(context: Any) -> Any:
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone


def _response(request: Any, version: str, outputs: Any, types: Any, *, batched: bool) -> Any:
    response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version=version, id=request.id)
    for name, values in outputs.items():
        datatype = _DATATYPES.get(types[name], types[name].removeprefix("TYPE_"))
        response.outputs.add(name=name, datatype=datatype, shape=[1, len(values)] if batched else [len(values)])
        response.raw_output_contents.append(_encoded(values, datatype))
    return response


def _encoded(values: Any, datatype: str) -> bytes:
    if datatype == "BYTES":
        texts = [value.encode("utf-8") for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return np.array(values, dtype=_DTYPES[datatype]).tobytes()


def _decoded(raw: bytes, datatype: str) -> list[Any]:
    if datatype != "BYTES":
        return np.frombuffer(raw, dtype=_DTYPES[datatype]).tolist()
    values = []
    while raw:
        (length,) = struct.unpack("<I", raw[:4])
        values.append(raw[4 : 4 + length].decode("utf-8"))
        raw = raw[4 + length :]
    return values
