"""The options by which commands find a running server."""

from typing import Annotated

import typer

from tools.client.address import Endpoint, Protocol, ServerAddress

DEFAULT_PORT_BASE = 8000

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="[SCHEME://]HOST:PORT", help="The port to speak to; grpc://, grpcs://, http:// or https://."
    ),
]
PortBaseOption = Annotated[
    int | None,
    typer.Option(
        "--port-base",
        min=1,
        max=65533,
        help=f"A local server: HTTP on this port, gRPC on the next.  [default: {DEFAULT_PORT_BASE}]",
    ),
]
ProtocolOption = Annotated[
    Protocol | None, typer.Option("--protocol", help="Front end to use.  [default: grpc]", show_default=False)
]


def endpoint_from(url: str | None, port_base: int | None, protocol: Protocol | None) -> Endpoint:
    """The endpoint that the three options name together.

    Raises:
        typer.BadParameter: --url cannot be read, or both --url and --port-base are given.
    """
    if url is not None:
        if port_base is not None:
            raise typer.BadParameter("--url and --port-base name two servers; give one of them")
        try:
            return Endpoint.parse(url, protocol)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url") from error
    address = ServerAddress.from_port_base(DEFAULT_PORT_BASE if port_base is None else port_base)
    return address.endpoint(protocol or Protocol.GRPC)
