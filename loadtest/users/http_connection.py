"""One kept-alive HTTP connection, which carries one request after the other.

Why http.client: CPU of this process per server-sent event of one token, measured under gevent against a fake server on
one core, 48 streams, decoding and adding up included (13 us of it): http.client with `read1` 34 us, geventhttpclient's
`readline` 46, urllib3 44, httpx 83; requests with `iter_lines(chunk_size=1)`, which sees events in time, took 326 where
http.client took 65 (8 streams). So one core keeps up with close to 30,000 events a second. `read1` returns what has
arrived, never waiting for a block to be full, which would put TTFT off.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Final

from tools.client.address import Endpoint
from tools.client.errors import ServerUnreachableError, StreamTruncatedError, deadline_passed, from_http_status
from tools.client.request import Target
from tools.client.tls import context

_CONNECT_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 65536
_HEADERS: Final = {"Content-Type": "application/json"}


class HttpConnection:
    """A connection that is made when it is first needed, and again after it broke. Sends one request at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection = self._unconnected()
        self._interrupted = False

    def post(
        self, path: str, body: bytes, *, target: Target, deadline_s: float, headers: Mapping[str, str] | None = None
    ) -> Generator[bytes]:
        """Send a request and yield the body of its answer as it arrives. Closed early, the connection goes with it.

        Raises:
            ClientError: no connection, another status than 200, silence up to the deadline, a body that broke off.
        """
        connection = self._connection
        gives_up_at = perf_counter() + deadline_s
        response: http.client.HTTPResponse | None = None
        with self._translated(target, deadline_s):
            try:
                sock = self._connected(target)
                sock.settimeout(deadline_s)
                connection.request("POST", path, body=body, headers={**_HEADERS, **(headers or {})})
                response = connection.getresponse()
                if response.status != http.client.OK:
                    raise from_http_status(response.status, _message(response.read()), target)
                while received := response.read1(_READ_BYTES):
                    yield received
                    sock.settimeout(max(gives_up_at - perf_counter(), 1e-3))
            finally:
                # What is left of an unfinished answer must not be taken for the next one's.
                if response is None or not response.isclosed():
                    connection.close()

    def interrupt(self) -> None:
        """From another greenlet: end the request that runs, and any later one at once. Breaks the connection."""
        self._interrupted = True
        sock = self._connection.sock
        if sock is not None:
            _break(sock)

    def close(self) -> None:
        """Close the connection; nothing runs on it."""
        self._connection.close()

    def _unconnected(self) -> http.client.HTTPConnection:
        host, port = self._endpoint.host, self._endpoint.port
        if self._endpoint.tls:
            return http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_TIMEOUT_S, context=context(self._endpoint.ca_file)
            )
        return http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT_S)

    def _connected(self, target: Target) -> socket.socket:
        connection = self._connection
        if connection.sock is not None and _is_readable(connection.sock):
            # Between two requests the server has nothing to say but that it has closed the connection.
            connection.close()
        if connection.sock is None:
            try:
                connection.connect()
            except ssl.SSLCertVerificationError as error:
                raise ServerUnreachableError(
                    self._endpoint, f"its certificate: {error.verify_message}", target
                ) from error
            except TimeoutError as error:
                reason = f"no connection within {_CONNECT_TIMEOUT_S:g} s"
                raise ServerUnreachableError(self._endpoint, reason, target) from error
            except OSError as error:
                raise ServerUnreachableError(self._endpoint, str(error), target) from error
        if self._interrupted:
            raise StreamTruncatedError("interrupted", target)
        return connection.sock

    @contextmanager
    def _translated(self, target: Target, deadline_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise deadline_passed(deadline_s, target) from error
        except http.client.RemoteDisconnected as error:
            raise StreamTruncatedError("the connection was closed before any answer", target) from error
        except http.client.IncompleteRead as error:
            raise StreamTruncatedError("the connection was closed in the middle of the answer", target) from error
        except http.client.HTTPException as error:
            reason = f"it does not answer in HTTP ({error!r})"
            raise ServerUnreachableError(self._endpoint, reason, target) from error
        except OSError as error:
            raise StreamTruncatedError(f"the connection broke: {error}", target) from error


def _message(body: bytes) -> str:
    """What an error's body says: Triton's `{"error": TEXT}` (after `data:` in a stream), OpenAI's
    `{"error": {"message": TEXT}}`, FastAPI's `{"detail": TEXT}`, or the body itself.
    """
    text = body.decode("utf-8", "replace").strip()
    try:
        parsed = json.loads(text.removeprefix("data:"))
    except ValueError:
        return text or "empty body"
    said = parsed.get("error", parsed.get("detail", parsed)) if isinstance(parsed, dict) else parsed
    return str(said.get("message", said)) if isinstance(said, dict) else str(said)


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _break(sock: socket.socket) -> None:
    # Through a duplicate, so that the greenlet that reads from `sock` (a TLS one, perhaps) sees an end of the stream
    # and nothing else.
    try:
        with socket.fromfd(sock.fileno(), sock.family, sock.type) as twin:
            twin.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It was closed or broken already, which is what was wanted.
        return
