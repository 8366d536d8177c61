"""OpenAI-compatible servers: vLLM's own, and NVIDIA's front end of tritonserver. Chat completions for messages,
completions for a prompt, both streamed.

Token counts are asked for with every event (`continuous_usage_stats`, vLLM) and at the end (`include_usage`, all).
NVIDIA's front end counts at the end only, and calls every end "stop"; a server that refuses the first is asked again
without it, within the time of the request that found out.
"""

from __future__ import annotations

import json
from contextlib import closing
from time import perf_counter
from typing import Any

from loadtest.options import LoadOptions
from loadtest.workloads.planned import PlannedRequest
from tools.client.address import Endpoint
from tools.client.errors import ClientError, DeadlineExceededError, RequestRefusedError
from tools.client.request import JsonValue, Target

from .answer import Answer, Attempt, late, never_sent
from .http_connection import HttpConnection
from .kserve import sampling_of
from .openai_events import CompletionEvents
from .verdict import ENDED_HERE, failure_of

_CONTINUOUS = "continuous_usage_stats"


class OpenAiTransport:
    """See `loadtest.users.transport.Transport`."""

    def __init__(self, options: LoadOptions, target: str, endpoint: Endpoint) -> None:
        self._options = options
        self._name = target
        self._target = Target(target)
        self._http = HttpConnection(endpoint)
        self._counts_events = True
        self._running = False
        self._closed = False

    def prepare(self, request: PlannedRequest) -> None:
        """See `Transport.prepare`; the server applies its own template."""

    def send(self, request: PlannedRequest, due_at: float) -> Answer:
        """See `Transport.send`."""
        attempt = Attempt(self._name, request, due_at, self._options.deadline_s)
        if self._closed:
            return attempt.fail(ENDED_HERE)
        if attempt.is_late:
            return attempt.fail(never_sent(self._options.deadline_s))
        self._running = True
        attempt.start(streamed=True)
        try:
            try:
                self._stream(request, attempt)
            except RequestRefusedError as error:
                if not self._counts_events or _CONTINUOUS not in error.message:
                    raise
                self._counts_events = False
                self._stream(request, attempt)
        except ClientError as error:
            if self._closed:
                return attempt.fail(ENDED_HERE)
            if isinstance(error, DeadlineExceededError):
                return attempt.fail(late(self._options.deadline_s))
            return attempt.fail(failure_of(error))
        finally:
            self._running = False
            if self._closed:
                self._http.close()
        return attempt.end()

    def close(self) -> None:
        """See `Transport.close`."""
        self._closed = True
        self._http.interrupt()
        if not self._running:
            self._http.close()

    def _stream(self, request: PlannedRequest, attempt: Attempt) -> None:
        deadline_s = self._options.deadline_s
        path = "/v1/chat/completions" if request.messages else "/v1/completions"
        body = json.dumps(self._body(request), ensure_ascii=False).encode("utf-8")
        events = CompletionEvents(self._target, gives_up_at=perf_counter() + deadline_s, deadline_s=deadline_s)
        with closing(self._http.post(path, body, target=self._target, deadline_s=deadline_s)) as pieces:
            for received in pieces:
                for chunk in events.feed(received, perf_counter()):
                    attempt.add(chunk)
        for chunk in events.finish():
            attempt.add(chunk)

    def _body(self, request: PlannedRequest) -> dict[str, Any]:
        usage: dict[str, JsonValue] = {"include_usage": True}
        if self._counts_events:
            usage[_CONTINUOUS] = True
        asked: dict[str, Any] = (
            {"messages": [message.as_json() for message in request.messages]}
            if request.messages
            else {"prompt": request.prompt}
        )
        return {
            "model": self._name,
            "stream": True,
            "stream_options": usage,
            **asked,
            **sampling_of(self._options, request),
        }
