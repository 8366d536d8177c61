"""Triton's HTTP endpoints over a FakeTriton."""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.client.fakes.loopback import in_thread
from tests.client.fakes.triton import (
    Break,
    Fail,
    FakeModel,
    FakeTriton,
    NoFinal,
    Outputs,
    Raw,
    Say,
    Seen,
    WaitForCancel,
)


@contextmanager
def serve_http(triton: FakeTriton, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve on a free port of loopback; yields the port."""
    handler = type("Handler", (_Handler,), {"triton": triton})
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        # The handshake is for the connection's thread: one that is not made must not hold up the others.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with in_thread(server) as port:
        yield port


class _Server(ThreadingHTTPServer):
    # Connections that wait to be accepted; five by default, and the others are reset.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away in the middle is what many tests are about.
        if not isinstance(sys.exc_info()[1], ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    triton: FakeTriton
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.triton.connections += 1

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        match self.path.strip("/").split("/"):
            case ["v2"]:
                self._json(200, {"name": "triton", "version": "2.51.0"})
            case ["v2", "health", "live"]:
                self._json(200 if self.triton.live else 400, {})
            case ["v2", "health", "ready"]:
                self._json(200 if self.triton.ready else 400, {})
            case ["v2", "models", "stats"]:
                self._json(200, {"model_stats": self.triton.statistics()})
            case ["v2", "models", name, "config"]:
                self._config(name, "")
            case ["v2", "models", name, "versions", version, "config"]:
                self._config(name, version)
            case _:
                self._json(404, {"error": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        match self.path.strip("/").split("/"):
            case ["v2", "repository", "index"]:
                self._json(200, self.triton.index())
            case ["v2", "models", name, ("generate" | "generate_stream") as endpoint]:
                self._generate(name, "", endpoint, body)
            case ["v2", "models", name, "versions", version, ("generate" | "generate_stream") as endpoint]:
                self._generate(name, version, endpoint, body)
            case _:
                self._json(404, {"error": "Not Found"})

    def _config(self, name: str, version: str) -> None:
        config = self.triton.config(name, version)
        self._json(404, {"error": config}) if isinstance(config, str) else self._json(200, config)

    def _generate(self, name: str, version: str, endpoint: str, body: dict[str, Any]) -> None:
        found = self.triton.find(name, version)
        if isinstance(found, str):
            self._json(404, {"error": found})
            return
        model, chosen = found
        steps = model.script(self._see(model, version, body))
        if isinstance(steps[0], Fail):
            self._json(400, {"error": steps[0].text}, frame=endpoint == "generate_stream")
            return
        self._begin("text/event-stream" if endpoint == "generate_stream" else "application/json")
        for step in steps:
            match step:
                case Say() | Outputs():
                    values = step.outputs() if isinstance(step, Say) else step.values
                    self._send_object({**_collapsed(values), "model_name": name, "model_version": chosen}, endpoint)
                case Fail():
                    self._send_object({"error": step.text}, endpoint)
                case Raw():
                    self._write(step.data)
                case Break():
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                case WaitForCancel():
                    readable, _, _ = select.select([self.connection], [], [], step.limit_s)
                    if readable and self.connection.recv(1) == b"":
                        self.triton.cancelled.set()
                    self.close_connection = True
                    return
                case NoFinal():
                    pass
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.triton.hangs_up

    def _see(self, model: FakeModel, version: str, body: dict[str, Any]) -> Seen:
        inputs = {
            key: value if isinstance(value, list) else [value] for key, value in body.items() if key in model.inputs
        }
        parameters = {key: value for key, value in body.items() if key not in model.inputs}
        seen = Seen(model.name, version, body.get("id", ""), inputs, {}, parameters)
        self.triton.seen.append(seen)
        return seen

    def _begin(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_object(self, value: dict[str, Any], endpoint: str) -> None:
        text = json.dumps(value, ensure_ascii=False)
        self._write((f"data: {text}\n\n" if endpoint == "generate_stream" else text).encode("utf-8"))

    def _write(self, data: bytes) -> None:
        size = self.triton.write_size or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()

    def _json(self, status: int, value: Any, *, frame: bool = False) -> None:
        text = json.dumps(value)
        payload = (f"data: {text}\n\n" if frame else text).encode("utf-8")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def _collapsed(values: Any) -> dict[str, Any]:
    return {name: value[0] if len(value) == 1 else value for name, value in values.items()}
