"""Whose certificates are trusted: this machine's authorities, or one that is named."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

from tools.client.address import Endpoint


@cache
def context(ca_file: str | None) -> ssl.SSLContext:
    """Verifies certificates against the file's authorities (PEM), or this machine's own without one.

    Raises OSError (ssl.SSLError is one) when the file cannot be read or holds no certificate.
    """
    return ssl.create_default_context(cafile=ca_file)


def verification(endpoint: Endpoint) -> ssl.SSLContext | bool:
    """What httpx takes as `verify`. Without TLS nothing is to be verified, and loading authorities would take longer
    than a local request.
    """
    return context(endpoint.ca_file) if endpoint.tls else False


def root_certificates(endpoint: Endpoint) -> bytes | None:
    """What gRPC takes; None for its own."""
    return None if endpoint.ca_file is None else Path(endpoint.ca_file).read_bytes()
