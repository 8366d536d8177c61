"""What a load test needs of a protocol: requests in, outcomes out. Nothing raises for a request that fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from loadtest import options as load
from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions
from loadtest.workloads.planned import PlannedRequest
from tools.client import address
from tools.client.address import Endpoint

from .answer import Answer
from .generate import GenerateConnection
from .grpc_stream import GrpcConnection
from .kserve import KserveTransport
from .openai import OpenAiTransport


class Transport(Protocol):
    """Carries one request at a time to one target; its connection stays open from one to the next."""

    def prepare(self, request: PlannedRequest) -> None:
        """Do ahead of time what `send` would otherwise do first: read the model's contract, apply the chat template.

        Optional, and best before the request is due: `send` leaves it out of its times, but not out of the wall clock.
        """

    def send(self, request: PlannedRequest, due_at: float) -> Answer:
        """Send the request and wait for its answer. Whatever goes wrong is in the outcome, by kind, with a message.

        Killing the greenlet ends the request as `close` does.
        """

    def close(self) -> None:
        """From another greenlet: end what runs, as CANCELLED, and send no more.

        The server is free of a stream then. An answer of `generate` or of an ensemble it computes to the end, or to its
        deadline: tritonserver does not pass on that nobody waits for it.
        """


def endpoint_of(options: LoadOptions) -> Endpoint:
    """Where the run's requests go.

    Raises:
        LoadTestError: the host is no address, or one of another protocol.
    """
    wanted = address.Protocol.GRPC if options.protocol is load.Protocol.GRPC else address.Protocol.HTTP
    scheme, separator, _ = options.host.partition("://")
    if separator and scheme.removesuffix("s") in list(address.Protocol) and scheme.removesuffix("s") != wanted:
        raise LoadTestError(
            f'host "{options.host}" is an address of {scheme}, but protocol "{options.protocol}" speaks {wanted}: '
            f"give the server's {wanted} port as {wanted}://HOST:PORT, or take another protocol"
        )
    try:
        endpoint = Endpoint.parse(options.host.rstrip("/"), wanted)
    except ValueError as error:
        raise LoadTestError(f"host {error}") from error
    if options.ca_file is not None and not endpoint.tls:
        raise LoadTestError(
            f'--ca-file "{options.ca_file}" has no meaning for "{endpoint.url}", which is not asked over TLS: '
            f"give {wanted}s://HOST:PORT, or leave it out"
        )
    return replace(endpoint, ca_file=options.ca_file)


def open_transport(options: LoadOptions, target: str) -> Transport:
    """A transport of the run's protocol; nothing is sent yet.

    Raises:
        LoadTestError: the host is no address of this protocol.
    """
    if options.protocol is load.Protocol.OPENAI:
        return OpenAiTransport(options, target, endpoint_of(options))
    return open_kserve(options, target)


def open_kserve(options: LoadOptions, target: str) -> KserveTransport:
    """See `open_transport`; the protocol is one of tritonserver's own."""
    endpoint = endpoint_of(options)
    if options.protocol is load.Protocol.GRPC:
        return KserveTransport(options, target, endpoint, GrpcConnection(endpoint), stream=True)
    stream = options.protocol is load.Protocol.GENERATE_STREAM
    return KserveTransport(options, target, endpoint, GenerateConnection(endpoint), stream=stream)
