"""KServe's generate and generate_stream over HTTP: one JSON answer, or server-sent events."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from time import perf_counter
from typing import Any

from tools.client.address import Endpoint
from tools.client.completion import Chunk
from tools.client.contract import ModelContract, PreparedRequest, TensorValues
from tools.client.http_codec import (
    ResponseReader,
    decode_outputs,
    encode_request,
    encode_tensors,
    model_path,
)
from tools.client.request import Target
from tools.client.transport import DEADLINE_GRACE_S

from .http_connection import HttpConnection


class GenerateConnection:
    """See `Connection`: Triton's generate endpoints over one HTTP connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._http = HttpConnection(endpoint)

    def stream(self, prepared: PreparedRequest) -> Generator[Chunk]:
        """See `tools.client.transport.Transport.stream`."""
        assert prepared.deadline_s is not None, "every request of a load test has a deadline"
        path = f"{model_path(prepared.target)}/{'generate_stream' if prepared.stream else 'generate'}"
        body = encode_request(prepared)
        reader = ResponseReader(prepared, started_at=perf_counter())
        deadline_s = prepared.deadline_s + DEADLINE_GRACE_S
        with closing(self._http.post(path, body, target=prepared.target, deadline_s=deadline_s)) as pieces:
            for received in pieces:
                yield from reader.feed(received, perf_counter())
        yield from reader.finish(perf_counter())

    def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `tools.client.transport.Transport.infer`."""
        assert deadline_s is not None, "every request of a load test has a deadline"
        body = json.dumps(encode_tensors(tensors, contract.inputs), ensure_ascii=False).encode("utf-8")
        with closing(
            self._http.post(f"{model_path(target)}/generate", body, target=target, deadline_s=deadline_s)
        ) as pieces:
            return decode_outputs(b"".join(pieces).decode("utf-8", "replace"), target)

    def interrupt(self) -> None:
        """See `Connection.interrupt`."""
        self._http.interrupt()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()
