"""The rungs as they are served: by the server that runs, or each by its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from loadtest.options import Protocol
from tests.client.fakes.running import running
from tests.client.fakes.triton import Fail, FakeTriton, Say, engine
from tests.reporting.examples import PROFILE, V2, V3
from tools.benchmark.errors import BenchmarkError
from tools.bootstrap.layout import Layout
from tools.client.address import ServerAddress
from tools.client.request import Target
from tools.reporting import serving
from tools.reporting.errors import ReportError
from tools.reporting.server_metrics import EngineMetrics
from tools.reporting.serving import IsolatedServers, RunningServer, Triton, alone
from tools.serving.errors import ServingError

BF16 = Target("llm_bf16", 1)


@pytest.fixture
def triton() -> FakeTriton:
    return FakeTriton(
        engine("llm_bf16", Say("Mercury", tokens=4, finish="length", final=True)),
        engine("llm_awq", Fail("UNAVAILABLE", "the engine is starting"), states={"1": ("LOADING", "")}),
    )


@pytest.fixture
def address(triton: FakeTriton) -> Iterator[ServerAddress]:
    with running(triton) as found:
        yield found


@pytest.mark.parametrize("protocol", [Protocol.GENERATE_STREAM, Protocol.GRPC])
def test_a_warm_up_is_one_short_greedy_request(protocol: Protocol, triton: FakeTriton, address: ServerAddress) -> None:
    with RunningServer(address, protocol)(BF16) as rung:
        rung.warm_up()
    (seen,) = triton.seen
    assert (seen.model, seen.version) == ("llm_bf16", "1")
    assert seen.sampling == {"temperature": 0.0, "max_tokens": 4}


def test_each_protocol_has_its_port(address: ServerAddress) -> None:
    http = Triton(address, BF16, Protocol.GENERATE_STREAM)
    assert http.host == f"http://127.0.0.1:{address.http_port}"
    assert Triton(address, BF16, Protocol.GRPC).host == f"grpc://127.0.0.1:{address.grpc_port}"
    # Nothing listens at the port of the metrics.
    assert http.metrics() == EngineMetrics()


def test_a_warm_up_that_fails_says_why(address: ServerAddress) -> None:
    with (
        RunningServer(address, Protocol.GENERATE_STREAM)(Target("llm_awq", 1)) as rung,
        pytest.raises(ReportError, match='the warm-up request failed: model "llm_awq:1"'),
    ):
        rung.warm_up()


def test_a_server_that_holds_all_rungs_tells_its_version(address: ServerAddress) -> None:
    assert RunningServer(address, Protocol.GENERATE_STREAM).require([V2]) == "2.51.0"


def test_what_is_not_ready_is_named_with_what_to_do(address: ServerAddress) -> None:
    server = RunningServer(address, Protocol.GENERATE_STREAM)
    with pytest.raises(
        ReportError, match=r"not ready on the server: v3 \(llm_awq:1\): serve them .* --rungs v2 leaves"
    ):
        server.require([V2, V3])
    with pytest.raises(ReportError, match=r"\./ladder status shows what it has"):
        server.require([V3])


def test_no_server_is_an_error_with_what_to_do() -> None:
    nowhere = RunningServer(ServerAddress("127.0.0.1", 1, 1, 1), Protocol.GENERATE_STREAM)
    with pytest.raises(ReportError, match=r"no tritonserver answers(.|\n)*Start one(.|\n)*--isolate"):
        nowhere.require([V2])


def test_a_profile_of_one_version_alone() -> None:
    profile = alone(PROFILE, Target("llm_baseline", 2))
    assert list(profile.enabled_variants) == ["llm_baseline"]
    assert profile.variants["llm_baseline"].load_versions == (2,)


class FakeServing:
    """Stands in for starting a tritonserver."""

    def __init__(self, error: Exception | None = None) -> None:
        self.served: list[tuple[str, int | None, str]] = []
        self.stopped = 0
        self._error = error

    @contextmanager
    def __call__(
        self, repository: Path, models: Sequence[str], port_base: int | None, layout: Layout, report: object
    ) -> Iterator[object]:
        if self._error is not None:
            raise self._error
        (model,) = models
        self.served.append((model, port_base, (repository / model / "config.pbtxt").read_text()))
        try:
            yield SimpleNamespace(address=ServerAddress.from_port_base(8510))
        finally:
            self.stopped += 1


def isolated(tmp_path: Path, port_base: int | None = None) -> IsolatedServers:
    return IsolatedServers(PROFILE, Protocol.GENERATE_STREAM, Layout(tmp_path), lambda _: None, port_base)


def test_an_isolated_rung_has_a_server_with_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = FakeServing()
    monkeypatch.setattr(serving, "serving_one", started)
    with isolated(tmp_path, 8700)(Target("llm_baseline", 2)) as rung:
        assert rung.host == "http://127.0.0.1:8510"
    ((model, port_base, config),) = started.served
    assert (model, port_base, started.stopped) == ("llm_baseline", 8700, 1)
    assert "version_policy { specific { versions: [ 2 ] } }" in config
    repository = tmp_path / ".ladder/report/llm_baseline-2/model_repository"
    assert [path.name for path in repository.iterdir()] == ["llm_baseline"]
    arguments = json.loads((repository / "llm_baseline/2/model.json").read_text())
    assert arguments["attention"] == "flash_attention_2"


def test_it_is_stopped_whatever_happens_in_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = FakeServing()
    monkeypatch.setattr(serving, "serving_one", started)
    with pytest.raises(KeyboardInterrupt), isolated(tmp_path)(BF16):
        raise KeyboardInterrupt
    assert started.stopped == 1


@pytest.mark.parametrize("error", [ServingError("port 8500 is held"), BenchmarkError('"llm_bf16" could not be loaded')])
def test_a_server_that_does_not_start_is_a_reason(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "serving_one", FakeServing(error))
    with pytest.raises(ReportError, match=f'no server for "llm_bf16:1": {error}'), isolated(tmp_path)(BF16):
        pass
