"""Servers that answer as tritonserver's front ends do, and as a test tells them to."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import grpc

from tools.fleet.plan import Member

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
FULL = json.dumps({"error": "the queue is full: 4 requests wait and MAX_WAITING_REQUESTS is 4. Retry later"}).encode()

Mode = Literal["answer", "full", "fail", "reset", "hold", "reset_late"]


class Upstream:
    """One server. `asked` counts requests by the user they name; health checks are answered and not counted."""

    def __init__(self, member: Member) -> None:
        self.name = member.name
        self.mode: Mode = "answer"
        self.asked: Counter[str] = Counter()
        self.metadata: list[dict[str, str]] = []
        self.held = threading.Semaphore(0)
        self.let_go = threading.Event()
        self._http = _Server(("127.0.0.1", member.http_port), _handler(self))
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        self._grpc = grpc.server(ThreadPoolExecutor(32))
        self._grpc.add_generic_rpc_handlers((_Grpc(self),))
        self._grpc.add_insecure_port(f"127.0.0.1:{member.port_of('grpc')}")
        self._grpc.start()

    def note(self, user: str | None) -> None:
        """A request has come."""
        self.asked[user or ""] += 1

    def hold(self) -> None:
        """Keep a request until the test lets it go."""
        self.held.release()
        self.let_go.wait(30)

    def stop(self) -> None:
        """As if killed: nothing listens any more."""
        self.let_go.set()
        self._http.shutdown()
        self._http.server_close()
        self._http.close_connections()
        self._grpc.stop(None).wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for request in list(self._open):
            super().shutdown_request(request)


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        # An answer is written as one: a server that is stopped has begun none that it does not finish.
        wbufsize = -1

        def do_GET(self) -> None:
            self._send(200, b"", {})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            upstream.note(self.headers.get("x-ladder-user"))
            upstream.metadata.append(dict(self.headers.items()))
            if upstream.mode == "reset":
                self.close_connection = True
                return
            if upstream.mode == "hold":
                upstream.hold()
            if self.path.endswith("/generate_stream"):
                self._stream()
            elif upstream.mode == "full":
                self._send(400, FULL, {"content-type": "application/json"})
            elif upstream.mode == "fail":
                self._send(500, b'{"error":"broken"}', {})
            else:
                self._send(200, b'{"text_output":"Paris"}', {"content-type": "application/json"})

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for index in range(3):
                self._chunk(f"data: {index}\n\n".encode())
                if upstream.mode == "reset_late":
                    self.close_connection = True
                    return
                # The client says when it has seen this one.
                upstream.held.acquire(timeout=30)
            self._chunk(b"")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in (*headers.items(), ("content-length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    return Handler


class _Grpc(grpc.GenericRpcHandler):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        if details.method != STREAM:
            return None
        metadata = {name: str(value) for name, value in details.invocation_metadata}
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self._answer(metadata, requests, context)
        )

    def _answer(
        self, metadata: dict[str, str], requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        for request in requests:
            self._upstream.note(metadata.get("x-ladder-user"))
            self._upstream.metadata.append(metadata)
            if self._upstream.mode == "full":
                context.abort(grpc.StatusCode.UNAVAILABLE, "the queue is full")
            if self._upstream.mode == "hold":
                self._upstream.hold()
            for _ in range(3):
                yield request
                time.sleep(0)
