"""Where a tritonserver listens."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit


class Protocol(StrEnum):
    """The two front ends of tritonserver; both answer the same requests."""

    GRPC = "grpc"
    HTTP = "http"


_SCHEMES = {
    "http": (Protocol.HTTP, False),
    "https": (Protocol.HTTP, True),
    "grpc": (Protocol.GRPC, False),
    "grpcs": (Protocol.GRPC, True),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listening port of one server, and the protocol spoken on it.

    `ca_file` is a PEM file of the authorities that its certificate is verified against; None for this machine's own.
    """

    protocol: Protocol
    host: str
    port: int
    tls: bool = False
    ca_file: str | None = None

    @property
    def authority(self) -> str:
        """`host:port`, IPv6 addresses in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The endpoint with its scheme: http, https, grpc or grpcs."""
        return f"{self.protocol.value}{'s' if self.tls else ''}://{self.authority}"

    @classmethod
    def parse(cls, text: str, protocol: Protocol | None = None) -> "Endpoint":
        """Read `[scheme://]host:port`; without a scheme the protocol decides, gRPC by default.

        Raises:
            ValueError: no port, an unknown scheme, or a scheme that contradicts `protocol`.
        """
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = (protocol or Protocol.GRPC).value, text
        if scheme not in _SCHEMES:
            raise ValueError(f'"{text}": unknown scheme "{scheme}"; use one of {", ".join(_SCHEMES)}')
        scheme_protocol, tls = _SCHEMES[scheme]
        if protocol is not None and protocol is not scheme_protocol:
            raise ValueError(f'"{text}" speaks {scheme_protocol.value}, but the protocol asked for is {protocol.value}')
        parts = urlsplit(f"//{rest}")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f'"{text}": give only scheme, host and port; paths are the client\'s business')
        try:
            port = parts.port
        except ValueError as error:
            raise ValueError(f'"{text}": {error}') from error
        if not parts.hostname or port is None:
            raise ValueError(f'"{text}" is not of the form host:port, for example 127.0.0.1:8001')
        return cls(scheme_protocol, parts.hostname, port, tls)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The three ports of one tritonserver."""

    host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_port: int = 8001
    metrics_port: int = 8002

    @classmethod
    def from_port_base(cls, base: int, host: str = "127.0.0.1") -> "ServerAddress":
        """HTTP on `base`, gRPC on `base + 1`, metrics on `base + 2`, as `ladder up --port-base` lays them out."""
        return cls(host, base, base + 1, base + 2)

    def endpoint(self, protocol: Protocol) -> Endpoint:
        """The port of this server that speaks `protocol`."""
        return Endpoint(protocol, self.host, self.grpc_port if protocol is Protocol.GRPC else self.http_port)
