"""What listens on a port, found out by talking to it: HTTP and gRPC clients say little when they meet each other."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from enum import StrEnum
from typing import Final

from loadtest.errors import LoadTestError
from tools.client.address import Endpoint

_TIMEOUT_S: Final = 3.0
# The preface with which an HTTP/2 client begins, and an empty SETTINGS frame (RFC 9113, 3.4): gRPC answers with
# SETTINGS, HTTP/1.1 with a refusal in words.
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS: Final = 4
_HTTP1_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Speaks(StrEnum):
    """What answers."""

    HTTP = "HTTP"
    GRPC = "gRPC"
    TLS = "TLS"
    NOTHING_KNOWN = "neither HTTP nor gRPC nor TLS"


def what_speaks(endpoint: Endpoint) -> Speaks:
    """Talk to the port in each language until it answers. Takes at most a few seconds.

    Raises:
        LoadTestError: the name cannot be resolved, or nobody listens.
    """
    _require_listener(endpoint)
    if _begins_tls(endpoint):
        return Speaks.TLS
    answer = _answer(endpoint, _HTTP2_PREFACE)
    if len(answer) > _SETTINGS - 1 and answer[3] == _SETTINGS:
        return Speaks.GRPC
    if answer.startswith(b"HTTP/1") or _answer(endpoint, _HTTP1_REQUEST).startswith(b"HTTP/1"):
        return Speaks.HTTP
    return Speaks.NOTHING_KNOWN


def _require_listener(endpoint: Endpoint) -> None:
    try:
        with _connect(endpoint):
            return
    except socket.gaierror as error:
        raise LoadTestError(
            f'host name "{endpoint.host}" cannot be resolved ({error.strerror}): check its spelling'
        ) from error
    except TimeoutError as error:
        raise LoadTestError(
            f'"{endpoint.url}" takes no connection within {_TIMEOUT_S:g} s: '
            "is it the right host, or is a firewall between?"
        ) from error
    except OSError as error:
        raise LoadTestError(
            f'nothing listens at "{endpoint.url}" ({error.strerror or error}): '
            "start the server with `./ladder up`, or give its address with --host"
        ) from error


def _connect(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), timeout=_TIMEOUT_S)


def _begins_tls(endpoint: Endpoint) -> bool:
    context = ssl.create_default_context()
    # Whose certificate it is does not matter here; nothing is sent over the connection.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError), _connect(endpoint) as plain, context.wrap_socket(plain):
        return True
    return False


def _answer(endpoint: Endpoint, said: bytes) -> bytes:
    with suppress(OSError), _connect(endpoint) as sock:
        sock.sendall(said)
        return sock.recv(64)
    return b""
