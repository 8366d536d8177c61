"""A router whose engines are played by the test: what it sends is kept, what they answer is what the test says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.backends.models import arguments
from tests.fixtures import fake_pb_utils
from tests.fixtures.fake_pb_utils import InferenceRequest, ResponseSender
from tests.waiting import wait_until
from tools.backends.router import router as router_module
from tools.backends.router.model import TritonPythonModel
from tools.backends.router.peers import Identity
from tools.backends.router.router import Router
from tools.release.file import compile_release, parse_release
from tools.wire.error_codes import split_code
from tools.wire.messages import Cancel, Delta, Failure, Request, Submit, ToEngine, Tokenize, Tokenized, Welcome
from tools.wire.release import Released

BF16, AWQ, EAGLE = ("llm_bf16", 1), ("llm_awq", 1), ("llm_eagle", 1)


class Peer:
    """One engine of a target."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.in_flight = 0
        self.ready = True
        self.sent: list[ToEngine] = []

    def send(self, message: ToEngine) -> None:
        self.sent.append(message)

    @property
    def requests(self) -> list[Request]:
        return [request for message in self.sent if isinstance(message, Submit) for request in message.requests]

    @property
    def cancelled(self) -> list[int]:
        return [key for message in self.sent if isinstance(message, Cancel) for key in message.keys]


class Peers:
    """What `EnginePeers` is to the router."""

    def __init__(self) -> None:
        self.by_target: defaultdict[Identity, list[Peer]] = defaultdict(list)

    def add(self, identity: Identity) -> Peer:
        peer = Peer(identity)
        self.by_target[identity].append(peer)
        return peer

    def of(self, identity: Identity) -> list[Peer]:
        return self.by_target.get(identity, [])

    def ready_targets(self) -> list[Identity]:
        return sorted(identity for identity, peers in self.by_target.items() if any(peer.ready for peer in peers))

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Tokenizer:
    """What `RouterEngine` is to the router: a prompt has a token for each of its words. Held back, it says nothing."""

    def __init__(self, on_tokenized: Callable[[Tokenized], None], on_released: Callable[[Released], None]) -> None:
        self.on_tokenized = on_tokenized
        self.on_released = on_released
        self.held: list[Tokenize] | None = None
        self.failure: Failure | None = None

    def start(self) -> Welcome:
        return Welcome(1, "tokenizer", 1, 2048, 1, "words")

    def stop(self) -> None: ...

    def tokenize(self, message: Tokenize) -> Failure | None:
        if self.failure is None:
            if self.held is None:
                self.answer(message)
            else:
                self.held.append(message)
        return self.failure

    def answer(self, message: Tokenize) -> None:
        text = message.messages or message.text
        if text is None:
            failure = Failure("INVALID_ARG", "nothing to tokenize")
            self.on_tokenized(Tokenized(message.key, "", [], failure))
        else:
            self.on_tokenized(Tokenized(message.key, text, list(range(len(text.split())))))


class Stage:
    """The router as Triton calls it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.peers = Peers()
        self.tokenizer: Tokenizer
        monkeypatch.setattr(router_module, "EnginePeers", lambda folder, owner: self.peers)
        monkeypatch.setattr(router_module, "RouterEngine", self._make_tokenizer)
        # The test writes them, when it looks.
        monkeypatch.setattr(router_module, "_METRICS_S", 3600)
        self.model = TritonPythonModel()
        self.model.initialize(arguments(folder / "chat", name="chat"))

    def _make_tokenizer(self, config: Any, *, on_tokenized: Any, on_released: Any, **others: Any) -> Tokenizer:
        self.tokenizer = Tokenizer(on_tokenized, on_released)
        self.on_down = others["on_down"]
        return self.tokenizer

    @property
    def router(self) -> Router:
        return self.model._router

    def release(self, routes: str) -> None:
        """Put a release in force, given as YAML."""
        self.tokenizer.on_released(Released(compile_release(parse_release(routes, "test")), "test"))

    def ask(self, parameters: Mapping[str, Any] | None = None, timeout_us: int = 0, **inputs: Any) -> ResponseSender:
        """One streamed request; its responses are in what is returned."""
        given = {"text_input": "a b c", "stream": True, **inputs}
        request = InferenceRequest(given, parameters, timeout_us=timeout_us)
        self.model.execute([request])
        return request.sender

    def answer(self, peer: Peer, *texts: str, key: int | None = None, final: bool = True) -> None:
        """`peer` answers its newest request, or the one named, a token for each text."""
        key = peer.requests[-1].key if key is None else key
        for number, text in enumerate(texts, start=1):
            last = final and number == len(texts)
            delta = Delta(key, [text], [1], ["stop" if last else None], 3, final=last)
            self.router.on_step(peer, [delta])  # type: ignore[arg-type]

    def fail(self, peer: Peer, failure: Failure, key: int | None = None) -> None:
        """`peer` fails its newest request, or the one named."""
        key = peer.requests[-1].key if key is None else key
        self.router.on_step(peer, [Delta(key, [], [], [], final=True, failure=failure)])  # type: ignore[arg-type]

    def metric(self, name: str, identity: Identity = BF16, route: str = "default", **labels: str) -> float:
        """Value of a series; the number of observations for a histogram."""
        model, version = identity
        wanted = {"model": model, "version": str(version), "route": route, **labels}
        self.router._write_metrics()
        found = [metric for metric in fake_pb_utils.MetricFamily.registered[name].metrics if metric.labels == wanted]
        return (found[0].value() or len(found[0].observations)) if found else 0.0


def ended(sender: ResponseSender) -> ResponseSender:
    """The same, once its final response is there."""
    wait_until(sender.finished.is_set)
    return sender


def words_of(sender: ResponseSender) -> str:
    """The message of its error, without the code at the end."""
    return split_code(sender.error.message())[0]


def served_by(sender: ResponseSender) -> tuple[str, int]:
    """The target that the first response names."""
    first = sender.responses[0]
    return first.values("served_model")[0], first.values("served_version")[0]
