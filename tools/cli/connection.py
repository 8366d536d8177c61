"""The options by which commands find a running server."""

from typing import Annotated

import typer

from tools.bootstrap.layout import Layout
from tools.bootstrap.ports import DEFAULT_BASE, HIGHEST_BASE, LOWEST_BASE
from tools.client.address import Endpoint, Protocol, ServerAddress
from tools.serving.instance import Instance, InstanceFiles, known_port_bases

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

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
        min=LOWEST_BASE,
        max=HIGHEST_BASE,
        help="A server on this machine: HTTP on this port, gRPC on the next."
        f"  [default: that of the server `up` started, {DEFAULT_BASE} if there is none]",
    ),
]
ProtocolOption = Annotated[
    Protocol | None, typer.Option("--protocol", help="Front end to use.  [default: grpc]", show_default=False)
]


def endpoint_from(url: str | None, port_base: int | None, protocol: Protocol | None) -> Endpoint:
    """The endpoint that the three options name together.

    Raises:
        typer.BadParameter: --url cannot be read, both --url and --port-base are given, or neither is and several
            servers of this checkout are running.
    """
    if url is not None:
        if port_base is not None:
            raise typer.BadParameter("--url and --port-base name two servers; give one of them")
        try:
            return Endpoint.parse(url, protocol)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--url") from error
    base = running_port_base(Layout.of_this_checkout()) if port_base is None else port_base
    return ServerAddress.from_port_base(base).endpoint(protocol or Protocol.GRPC)


def instance_at(endpoint: Endpoint) -> Instance | None:
    """What this checkout has running at the endpoint; None for somebody else's server, whose weights are not ours."""
    if endpoint.host not in _LOOPBACK:
        return None
    layout = Layout.of_this_checkout()
    for base in known_port_bases(layout):
        address, files = ServerAddress.from_port_base(base), InstanceFiles.at(base, layout)
        if endpoint.port in (address.http_port, address.grpc_port) and files.supervised():
            return Instance.read(files)
    return None


def running_port_base(layout: Layout) -> int:
    """The port base of this checkout's one running server; the default one if none runs, or if it is among several."""
    running = [base for base in known_port_bases(layout) if InstanceFiles.at(base, layout).supervised()]
    if not running or DEFAULT_BASE in running:
        return DEFAULT_BASE
    if len(running) > 1:
        bases = ", ".join(map(str, running))
        raise typer.BadParameter(f"several servers of this checkout are running; give one of {bases} as --port-base")
    return running[0]
