"""Requests over HTTP: generate_stream (server-sent events) and generate."""

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import httpx

from tools.client.address import Endpoint
from tools.client.completion import Chunk
from tools.client.contract import ModelContract, PreparedRequest, TensorValues
from tools.client.errors import ServerUnreachableError, StreamTruncatedError, deadline_passed
from tools.client.http_codec import (
    ResponseReader,
    decode_error,
    decode_outputs,
    encode_request,
    encode_tensors,
    model_path,
)
from tools.client.request import Target
from tools.client.tls import verification
from tools.client.transport import DEADLINE_GRACE_S

_CONNECT_TIMEOUT_S = 10.0
_HEADERS = {"content-type": "application/json"}
# One connection per request in flight; a load test decides how many that are.
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)


def _client_options(endpoint: Endpoint) -> dict[str, Any]:
    return {"base_url": endpoint.url, "verify": verification(endpoint), "trust_env": False, "limits": _NO_LIMITS}


class HttpTransport:
    """Blocking HTTP. Safe to share between threads.

    HTTP has no deadline of its own: it is checked whenever data arrives, and bounds every silence.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = httpx.Client(**_client_options(endpoint))

    def stream(self, prepared: PreparedRequest) -> Generator[Chunk]:
        """See `Transport.stream`."""
        target = prepared.target
        body = encode_request(prepared)
        reader = ResponseReader(prepared, started_at=perf_counter())
        timeout = _timeout(prepared.deadline_s)
        with (
            _translated(self._endpoint, target, prepared.deadline_s),
            self._client.stream(
                "POST", _answer_path(prepared), content=body, headers=_HEADERS, timeout=timeout
            ) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise decode_error(response.status_code, response.read().decode("utf-8", "replace"), target)
            for received in response.iter_bytes():
                yield from reader.feed(received, perf_counter())
            yield from reader.finish(perf_counter())

    def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `Transport.infer`."""
        body = encode_tensors(tensors, contract.inputs)
        with _translated(self._endpoint, target, deadline_s):
            response = self._client.post(f"{model_path(target)}/generate", json=body, timeout=_timeout(deadline_s))
        if response.status_code != httpx.codes.OK:
            raise decode_error(response.status_code, response.text, target)
        return decode_outputs(response.text, target)

    def close(self) -> None:
        """See `Transport.close`."""
        self._client.close()


class AsyncHttpTransport:
    """HTTP for asyncio; deadlines as in `HttpTransport`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = httpx.AsyncClient(**_client_options(endpoint))

    async def stream(self, prepared: PreparedRequest) -> AsyncGenerator[Chunk]:
        """See `Transport.stream`."""
        target = prepared.target
        body = encode_request(prepared)
        reader = ResponseReader(prepared, started_at=perf_counter())
        timeout = _timeout(prepared.deadline_s)
        with _translated(self._endpoint, target, prepared.deadline_s):
            async with self._client.stream(
                "POST", _answer_path(prepared), content=body, headers=_HEADERS, timeout=timeout
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise decode_error(
                        response.status_code, (await response.aread()).decode("utf-8", "replace"), target
                    )
                async for received in response.aiter_bytes():
                    for chunk in reader.feed(received, perf_counter()):
                        yield chunk
                for chunk in reader.finish(perf_counter()):
                    yield chunk

    async def infer(
        self, target: Target, contract: ModelContract, tensors: Mapping[str, TensorValues], deadline_s: float | None
    ) -> Mapping[str, Sequence[Any]]:
        """See `Transport.infer`."""
        body = encode_tensors(tensors, contract.inputs)
        with _translated(self._endpoint, target, deadline_s):
            response = await self._client.post(
                f"{model_path(target)}/generate", json=body, timeout=_timeout(deadline_s)
            )
        if response.status_code != httpx.codes.OK:
            raise decode_error(response.status_code, response.text, target)
        return decode_outputs(response.text, target)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._client.aclose()


def _answer_path(prepared: PreparedRequest) -> str:
    return f"{model_path(prepared.target)}/{'generate_stream' if prepared.stream else 'generate'}"


def _timeout(deadline_s: float | None) -> httpx.Timeout:
    silence = None if deadline_s is None else deadline_s + DEADLINE_GRACE_S
    return httpx.Timeout(silence, connect=_CONNECT_TIMEOUT_S)


@contextmanager
def _translated(endpoint: Endpoint, target: Target, deadline_s: float | None) -> Iterator[None]:
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ServerUnreachableError(endpoint, str(error) or "the connection attempt timed out", target) from error
    except httpx.TimeoutException as error:
        assert deadline_s is not None, "only a deadline sets a time-out on reading and writing"
        raise deadline_passed(deadline_s, target) from error
    except httpx.TransportError as error:
        raise StreamTruncatedError(f"the connection broke: {error}", target) from error
