"""Whether a run can be made: asked before anything starts, so that a wrong port or name is one clear sentence and not a
table full of failures.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol
from loadtest.workloads.planned import PlannedRequest
from tools.client import address
from tools.client.address import Endpoint
from tools.client.contract import ModelContract
from tools.client.errors import ClientError
from tools.client.request import Message, Target
from tools.client.server_info import ServerInfo
from tools.client.tls import verification

from .grpc_stream import let_grpc_wait
from .probing import Speaks, require_trusted, what_speaks
from .transport import endpoint_of, open_kserve

_TIMEOUT_S: Final = 10.0
# What the server has to say of an answer, for it to be counted and known to be whole.
_COUNTS: Final = ("return_num_output_tokens", "return_finish_reason")
_GREETING: Final = PlannedRequest(max_tokens=1, messages=(Message("user", "Hello"),))


def check_targets(options: LoadOptions, sample: PlannedRequest = _GREETING) -> None:
    """Ask the server about every target, and have `sample` laid out for each, the chat template included.

    No engine is asked. A workload of plain prompts gives one as its sample, for it needs no chat template.

    Raises:
        LoadTestError: nobody listens there, or somebody with another protocol; a model or version is unknown or not
            ready; its answers could not be counted; it takes no such request as `sample`.
    """
    endpoint = endpoint_of(options)
    _check_port(endpoint, options)
    if options.protocol is Protocol.OPENAI:
        _check_openai(endpoint, options)
        return
    let_grpc_wait()
    _check_kserve(endpoint)
    for target in options.targets:
        with _explained(), ServerInfo.at(endpoint) as server:
            _check_contract(target, server.contract(Target.parse(target)), options.protocol)
        transport = open_kserve(options, target)
        try:
            with _explained():
                transport.lay_out(sample)
        finally:
            transport.close()


def _check_port(endpoint: Endpoint, options: LoadOptions) -> None:
    speaks = what_speaks(endpoint)
    plain, secure = ("grpc", "grpcs") if endpoint.protocol is address.Protocol.GRPC else ("http", "https")
    if endpoint.tls:
        if speaks is not Speaks.TLS:
            raise LoadTestError(
                f'"{endpoint.url}" speaks {speaks} without TLS: give {plain}://{endpoint.authority} as the host'
            )
        require_trusted(endpoint)
        return
    if speaks is Speaks.TLS:
        raise LoadTestError(f'"{endpoint.url}" wants TLS: give {secure}://{endpoint.authority} as the host')
    wanted = Speaks.GRPC if endpoint.protocol is address.Protocol.GRPC else Speaks.HTTP
    if speaks in (wanted, Speaks.BOTH):
        return
    other = {
        Speaks.HTTP: "tritonserver's gRPC port is one above its HTTP port (8001 by default)",
        Speaks.GRPC: "tritonserver's HTTP port is one below its gRPC port (8000 by default)",
    }
    raise LoadTestError(
        f'"{endpoint.url}" speaks {speaks}, protocol "{options.protocol}" needs {wanted}: '
        f"{other.get(speaks, 'give the address of a tritonserver or an OpenAI server')}"
    )


def _check_kserve(endpoint: Endpoint) -> None:
    """The port speaks the right protocol; is it a tritonserver?"""
    try:
        with ServerInfo.at(endpoint) as server:
            server.metadata()
    except (ClientError, ValueError) as error:
        if endpoint.protocol is address.Protocol.HTTP and _json_at(endpoint, "/v1/models"):
            raise LoadTestError(
                f'"{endpoint.url}" is an OpenAI server, not a tritonserver: take protocol "{Protocol.OPENAI}"'
            ) from error
        raise LoadTestError(
            f'"{endpoint.url}" is not a tritonserver ({str(error).splitlines()[0]}): give the port it serves on, '
            "8000 for HTTP and 8001 for gRPC by default (8002 has metrics only)"
        ) from error


def _check_contract(target: str, contract: ModelContract, protocol: Protocol) -> None:
    if "text_output" not in contract.outputs:
        known = ", ".join(f'"{name}"' for name in contract.outputs)
        raise LoadTestError(
            f'target "{target}" does not write text: it has no output "text_output", only {known}; take another'
        )
    for name in _COUNTS:
        if name not in contract.inputs:
            raise LoadTestError(
                f'target "{target}" has no input "{name}", so its answers could not be counted or known to be whole; '
                "take a model with the contract of NVIDIA's vLLM backend"
            )
    if protocol is Protocol.GENERATE and contract.decoupled and "stream" not in contract.inputs:
        raise LoadTestError(
            f'target "{target}" always streams (it has no input "stream"), which protocol "{protocol}" cannot take: '
            f'take "{Protocol.GENERATE_STREAM}" or "{Protocol.GRPC}"'
        )


def _check_openai(endpoint: Endpoint, options: LoadOptions) -> None:
    listing = _json_at(endpoint, "/v1/models")
    if listing is None:
        if _json_at(endpoint, "/v2"):
            raise LoadTestError(
                f'"{endpoint.url}" is a tritonserver, which has no OpenAI API on this port: take protocol '
                f'"{Protocol.GENERATE_STREAM}", or give the port of its OpenAI front end (9000 by default)'
            )
        raise LoadTestError(f'"{endpoint.url}/v1/models" does not answer as an OpenAI server: give another host')
    models = [str(model.get("id")) for model in listing.get("data", []) if isinstance(model, dict)]
    for target in options.targets:
        if target not in models:
            raise LoadTestError(f'target "{target}": {_unknown(target, models)}')


def _unknown(target: str, models: list[str]) -> str:
    model, separator, _ = target.partition(":")
    if separator and model in models:
        return f'the OpenAI API knows no versions; give "{model}"'
    nearest = difflib.get_close_matches(target, models, n=1)
    hint = f'did you mean "{nearest[0]}"?' if nearest else "take one of them"
    return f"the server knows no such model; it has {', '.join(models) or 'none'}; {hint}"


def _json_at(endpoint: Endpoint, path: str) -> dict[str, Any] | None:
    """The JSON object at this path, None if there is none."""
    try:
        with httpx.Client(verify=verification(endpoint), trust_env=False, timeout=_TIMEOUT_S) as client:
            response = client.get(f"{endpoint.url}{path}")
    except httpx.TransportError as error:
        raise LoadTestError(f'"{endpoint.url}" does not answer: {str(error) or type(error).__name__}') from error
    try:
        body = response.json() if response.is_success else None
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise LoadTestError(str(error)) from error
