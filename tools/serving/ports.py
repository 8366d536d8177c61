"""Making sure that the ports of an instance are free before anything is started."""

from __future__ import annotations

import socket

from tools.bootstrap.ports import HIGHEST_BASE, LOWEST_BASE, PORTS, holder_of
from tools.serving.command import LOOPBACK
from tools.serving.errors import ServingError


def require_free(port_base: int) -> None:
    """Raises ServingError naming each busy port, and who holds it."""
    if not LOWEST_BASE <= port_base <= HIGHEST_BASE:
        raise ServingError(f"--port-base {port_base} is out of range: choose one from {LOWEST_BASE} to {HIGHEST_BASE}")
    busy = [port_base + offset for offset in PORTS if not _is_free(port_base + offset)]
    if not busy:
        return
    lines = [f"port {port} ({PORTS[port - port_base]}) is held by {holder_of(port)}" for port in busy]
    raise ServingError("\n".join([*lines, "end it, or serve on other ports: ./ladder up --port-base 8100"]))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
