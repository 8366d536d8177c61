"""What listens on a port, found out by talking to it: HTTP and gRPC clients say little when they meet each other."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final

from loadtest.errors import LoadTestError
from tools.client.address import Endpoint
from tools.client.tls import context

_CONNECT_S: Final = 3.0
ANSWER_S: Final = 5.0
"""A server that is only busy answers the first bytes of a connection much sooner."""
# The preface with which an HTTP/2 client begins, and an empty SETTINGS frame (RFC 9113, 3.4): gRPC answers with
# SETTINGS, HTTP/1.1 with a refusal in words.
_HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS: Final = 4
_HTTP1_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Speaks(StrEnum):
    """What answers."""

    HTTP = "HTTP"
    GRPC = "gRPC"
    BOTH = "HTTP and gRPC"
    """As a proxy does, whose port takes whatever comes."""
    TLS = "TLS"
    NOTHING_KNOWN = "neither HTTP nor gRPC nor TLS"


def what_speaks(endpoint: Endpoint) -> Speaks:
    """Talk to the port in all languages at once. Takes ANSWER_S at most, after the connection.

    Raises:
        LoadTestError: the name cannot be resolved, nobody listens, or nobody answers.
    """
    _require_listener(endpoint)
    # Not in turns: a server that hangs would be waited for in each language.
    with ThreadPoolExecutor(3) as pool:
        tls = pool.submit(_begins_tls, endpoint)
        http2, http1 = (pool.submit(_answer, endpoint, said) for said in (_HTTP2_PREFACE, _HTTP1_REQUEST))
        # All three: a server with TLS may refuse what comes without it in plain HTTP.
        begun, second, first = tls.result(), http2.result(), http1.result()
    if begun is True:
        return Speaks.TLS
    in_words = (first or b"").startswith(b"HTTP/1")
    if second and len(second) >= _SETTINGS and second[3] == _SETTINGS:
        return Speaks.BOTH if in_words else Speaks.GRPC
    if in_words or (second or b"").startswith(b"HTTP/1"):
        return Speaks.HTTP
    if begun is None and second is None and first is None:
        raise LoadTestError(
            f'"{endpoint.url}" takes connections and answers nothing within {ANSWER_S:g} s: its server hangs, or is '
            "overloaded; look at its log, or start it anew"
        )
    return Speaks.NOTHING_KNOWN


def require_trusted(endpoint: Endpoint) -> None:
    """Raises LoadTestError when the certificate at a port with TLS is not one to trust."""
    try:
        trusted = context(endpoint.ca_file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower() if not isinstance(error, ssl.SSLError) else "no certificate"
        raise LoadTestError(
            f'--ca-file "{endpoint.ca_file}" cannot be read ({reason}): give the PEM file of the authority'
        ) from None
    try:
        with _connect(endpoint, ANSWER_S) as plain, trusted.wrap_socket(plain, server_hostname=endpoint.host):
            return
    except ssl.SSLCertVerificationError as error:
        raise LoadTestError(
            f'the certificate of "{endpoint.url}" is not trusted ({error.verify_message}): name the PEM file of the '
            "authority that signed it with --ca-file, and the host as the certificate does"
        ) from None
    except OSError as error:
        raise LoadTestError(f'"{endpoint.url}" does not finish its TLS handshake ({error}): look at its log') from None


def _require_listener(endpoint: Endpoint) -> None:
    try:
        with _connect(endpoint, _CONNECT_S):
            return
    except socket.gaierror as error:
        raise LoadTestError(
            f'host name "{endpoint.host}" cannot be resolved ({error.strerror}): check its spelling'
        ) from error
    except TimeoutError as error:
        raise LoadTestError(
            f'"{endpoint.url}" takes no connection within {_CONNECT_S:g} s: '
            "is it the right host, or is a firewall between?"
        ) from error
    except OSError as error:
        raise LoadTestError(
            f'nothing listens at "{endpoint.url}" ({error.strerror or error}): '
            "start the server with `./ladder up`, or give its address with --host"
        ) from error


def _connect(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    return socket.create_connection((endpoint.host, endpoint.port), timeout=timeout_s)


def _begins_tls(endpoint: Endpoint) -> bool | None:
    """None when nothing is answered."""
    unverified = ssl.create_default_context()
    # Whose certificate it is does not matter here; nothing is sent over the connection.
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        with _connect(endpoint, ANSWER_S) as plain, unverified.wrap_socket(plain):
            return True
    except TimeoutError:
        return None
    except OSError:
        return False


def _answer(endpoint: Endpoint, said: bytes) -> bytes | None:
    """What comes first; None when nothing does."""
    try:
        with _connect(endpoint, ANSWER_S) as sock:
            sock.sendall(said)
            return sock.recv(64)
    except TimeoutError:
        return None
    except OSError:
        return b""
