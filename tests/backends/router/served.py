"""A real tritonserver with the router and mock engines behind it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.asking import Model, Outputs, RefusedError, Triton, grpc_request
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import Scrape
from tests.fixtures import tiny_model
from tests.waiting import wait_until
from tools.benchmark.deployment import serving
from tools.benchmark.repository import write_mock_model, write_router
from tools.bootstrap.layout import Layout
from tools.release.file import FILE_NAME, parse_release, write_release
from tools.rendering.plan import ROUTER
from tools.spec.loading import load_profile
from tools.spec.release import Release

CHAT = Model(ROUTER)
STABLE, CANARY = "llm_stable", "llm_canary"
# The canary takes its time, so that a test can be between a request and its first token.
CANARY_TTFT_S = 1.5
STEP_S = 0.02


@dataclass(frozen=True)
class RouterServer:
    """What the tests ask, and the release file that they change."""

    deployment: Deployment
    triton: Triton
    release_file: Path

    def release(self, text: str) -> Release:
        """Put a release in force; returns when it is."""
        release = parse_release(text, "test")
        write_release(self.release_file, release)
        wanted = [(target, route) for route in release.routes for target in route.targets]
        wait_until(lambda: all(self._weight(target.name, route.name) == target.weight for target, route in wanted))
        return release

    def all_to(self, model: str, more: str = "") -> None:
        """Put a release in force in which one model answers everybody."""
        self.release(weights({model: 100}) + more)

    def all_at(self, share: int, more: str = "") -> None:
        """Put a release in force in which the canary has this share, in percent, and the stable target the rest."""
        self.release(weights({STABLE: 100 - share, CANARY: share}) + more)

    def _weight(self, target: str, route: str) -> float:
        model, _, version = target.rpartition(":")
        scrape = Scrape.of(self.deployment.address, model, int(version))
        return round(scrape.values.get(("ladder_release_weight", frozenset({("route", route)})), 0.0) * 100, 1)

    def counted(self, name: str, model: str, **labels: str) -> float:
        """A counter or gauge of the router's, for a model's version 1 and the default route."""
        scrape = Scrape.of(self.deployment.address, model)
        return scrape.values.get((name, frozenset({"route": "default", **labels}.items())), 0.0)

    def running(self, model: str) -> float:
        """Requests in a model's engine, as the engine says."""
        return Scrape.of(self.deployment.address, model)["ladder_requests_running"]

    @contextlib.contextmanager
    def stream(self, **inputs: Any) -> Iterator[Iterator[Outputs]]:
        """One streamed request to the router over gRPC; leaving the context cancels what is left of it."""
        responses = self.triton.grpc_stream(grpc_request(CHAT, request(**inputs)))
        try:
            yield responses
        finally:
            responses.close()  # type: ignore[attr-defined]

    def engine(self, model: str) -> psutil.Process:
        engine = self.deployment.engine_of(model)
        assert engine is not None, f'"{model}" has no engine'
        return engine


def request(tokens: int = 8, **inputs: Any) -> Mapping[str, Any]:
    """Inputs of a streamed request."""
    sampling = json.dumps({"max_tokens": tokens, "temperature": 0})
    return {"text_input": "one two three", "stream": True, "sampling_parameters": sampling, **inputs}


def weights(by_model: Mapping[str, float], name: str = "default") -> str:
    """A release with one route, as YAML."""
    targets = "".join(f"  - {{model: {model}, version: 1, weight: {weight}}}\n" for model, weight in by_model.items())
    return f"routes:\n- name: {name}\n  targets:\n{targets}"


def outcome(responses: Iterator[Outputs]) -> tuple[list[Outputs], RefusedError | None]:
    """All responses, and the error at the end, if any."""
    found: list[Outputs] = []
    try:
        found.extend(responses)
    except RefusedError as error:
        return found, error
    return found, None


@contextlib.contextmanager
def router_server(folder: Path, port_base: int) -> Iterator[RouterServer]:
    """Serve the router with two mock engines; their limits are wide."""
    profile = load_profile()
    models = folder / "models"
    _write_mock(models, STABLE, {"step_s": STEP_S, "max_num_seqs": 256})
    _write_mock(models, CANARY, {"step_s": STEP_S, "max_num_seqs": 256, "ttft_s": CANARY_TTFT_S})
    write_router(models, profile, "llm_bf16")
    tiny_model.write_chatml_tokenizer(folder / "tokenizer")
    (models / ROUTER / "1" / "model.json").write_text(
        json.dumps({"model": str(folder / "tokenizer"), "max_model_len": 2048}), encoding="utf-8"
    )
    release_file = models / ROUTER / FILE_NAME
    write_release(release_file, parse_release(weights({STABLE: 100}), "test"))
    with (
        serving(models, [STABLE, CANARY, ROUTER], port_base, Layout.of_this_checkout(), print) as server,
        Triton(server.address) as triton,
    ):
        served = RouterServer(Deployment(server.address), triton, release_file)
        served.all_to(STABLE)
        wait_until(lambda: _answers(served))
        yield served


def _answers(served: RouterServer) -> bool:
    """Whether the router has found the engines."""
    with served.stream(tokens=1) as responses:
        return outcome(responses)[1] is None


def _write_mock(models: Path, name: str, arguments: Mapping[str, Any]) -> None:
    profile = load_profile()
    write_mock_model(models / "new", profile, "llm_bf16", arguments)
    (models / "new" / "llm_bf16").rename(models / name)
    (models / "new").rmdir()
    config = models / name / "config.pbtxt"
    text = config.read_text(encoding="utf-8")
    assert 'name: "llm_bf16"' in text
    config.write_text(text.replace('name: "llm_bf16"', f'name: "{name}"', 1), encoding="utf-8")
