"""An OpenAI-compatible server that says what it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.client.fakes.loopback import in_thread

DONE = "[DONE]"


@dataclass
class FakeOpenAi:
    """`events` are the data of the events of every answer; `refuse` answers a request that holds that word with 400."""

    events: Sequence[Mapping[str, Any] | str] = ()
    models: Sequence[str] = ("llm_bf16",)
    refuse: str = ""
    status: int = 200
    body: Mapping[str, Any] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def event(content: str = "", finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One event of a chat completion."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return {"model": "llm_bf16", "choices": [choice], **more}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


@contextmanager
def serve_openai(fake: FakeOpenAi) -> Iterator[int]:
    """Serve on a free port of loopback; yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    with in_thread(server) as port:
        yield port


class _Handler(BaseHTTPRequestHandler):
    fake: FakeOpenAi
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": name} for name in self.fake.models]})
        else:
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"])).decode()
        self.fake.seen.append((self.path, json.loads(text)))
        if self.fake.refuse and self.fake.refuse in text:
            self._json(400, {"error": {"message": f"unknown field {self.fake.refuse}", "code": 400}})
            return
        if self.fake.status != 200:
            self._json(self.fake.status, self.fake.body)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for said in self.fake.events:
            data = f"data: {said if isinstance(said, str) else json.dumps(said)}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
