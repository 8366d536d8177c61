from collections.abc import Iterator

import pytest

from tests.client.conftest import Serve
from tests.client.fakes.triton import engine, ensemble, tokenizer
from tools.client.address import Endpoint, Protocol
from tools.client.choice import default_target
from tools.client.errors import ClientError, ModelNotReadyError, ModelUnknownError, ServerUnreachableError
from tools.client.request import Target
from tools.client.server_info import ServerInfo

TWO_OF_THREE = {"2": ("READY", ""), "10": ("READY", ""), "1": ("UNAVAILABLE", "unloaded")}


@pytest.fixture
def unreachable(nowhere: Endpoint) -> Iterator[ServerInfo]:
    with ServerInfo.at(nowhere) as server:
        yield server


def test_models_and_their_states(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16", states={"": ("", "")}), engine("llm_baseline", states=TWO_OF_THREE))

    with ServerInfo.at(address.endpoint(protocol)) as server:
        models = server.models()
        assert [(model.name, model.version, model.state, model.reason) for model in models] == [
            ("llm_baseline", 1, "UNAVAILABLE", "unloaded"),
            ("llm_baseline", 2, "READY", ""),
            ("llm_baseline", 10, "READY", ""),
            ("llm_bf16", None, "", ""),
        ]
        assert server.ready_targets() == [Target("llm_baseline", 2), Target("llm_baseline", 10)]
        assert server.is_model_ready(Target("llm_baseline"))
        assert server.is_model_ready(Target("llm_baseline", 2))
        assert not server.is_model_ready(Target("llm_baseline", 1))
        assert not server.is_model_ready(Target("llm_bf16"))


def test_health_and_metadata(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve()

    with ServerInfo.at(address.endpoint(protocol)) as server:
        assert server.is_live()
        assert server.is_ready()
        assert server.metadata().version == "2.51.0"
        triton.ready = False
        assert not server.is_ready()
        triton.live = False
        assert not server.is_live()


def test_statistics(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16"))

    with ServerInfo.at(address.endpoint(protocol)) as server:
        (statistics,) = server.statistics()
        assert (statistics.name, statistics.version) == ("llm_bf16", 1)
        assert statistics.inference_count == 3
        assert statistics.inference_stats.success.mean_ms == 2.5
        assert statistics.inference_stats.fail.count == 1
        assert statistics.inference_stats.queue.mean_ms is None


def test_nobody_listens(unreachable: ServerInfo) -> None:
    assert not unreachable.is_live()
    assert not unreachable.is_ready()
    with pytest.raises(ServerUnreachableError, match=r"^no tritonserver answers at .*Connection refused"):
        unreachable.models()


def test_something_else_listens(serve: Serve) -> None:
    _, address = serve()
    metrics = Endpoint(Protocol.HTTP, "127.0.0.1", address.grpc_port)

    with ServerInfo.at(metrics) as server, pytest.raises(ClientError):
        server.models()


def test_explain_is_silent_about_a_ready_model(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_baseline", states=TWO_OF_THREE))

    with ServerInfo.at(address.endpoint(protocol)) as server:
        server.explain(Target("llm_baseline"))
        server.explain(Target("llm_baseline", 10))


def test_explain_a_model_that_was_never_loaded(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16", states={"": ("", "")}))

    with ServerInfo.at(address.endpoint(protocol)) as server:
        with pytest.raises(ModelNotReadyError, match=r'^model "llm_bf16": not ready: it was never loaded. See'):
            server.contract(Target("llm_bf16"))
        with pytest.raises(
            ModelUnknownError, match=r'^model "llm_bf16:1": there is no version 1; the server has none l'
        ):
            server.contract(Target("llm_bf16", 1))


def test_explain_on_an_empty_server(serve: Serve, protocol: Protocol) -> None:
    _, address = serve()

    with ServerInfo.at(address.endpoint(protocol)) as server, pytest.raises(ModelUnknownError) as failure:
        server.contract(Target("llm_bf16"))

    assert str(failure.value) == (
        'model "llm_bf16": the server knows no such model, and none of its models is ready; see `./ladder status` '
        "(NOT_FOUND)"
    )


@pytest.mark.parametrize(
    ("models", "chosen"),
    [
        ((tokenizer(), engine("llm_awq"), ensemble("chat_baseline"), ensemble("chat_bf16")), "chat_bf16"),
        ((tokenizer(), engine("llm_awq"), ensemble("chat_baseline")), "chat_baseline"),
        ((tokenizer(), engine("llm_bf16"), engine("llm_baseline")), "llm_baseline"),
        ((engine("zephyr"),), "zephyr"),
        ((engine("chat_bf16", states={"1": ("LOADING", "")}), engine("llm_bf16")), "llm_bf16"),
    ],
)
def test_default_target(serve: Serve, models: tuple[object, ...], chosen: str) -> None:
    _, address = serve(*models)

    with ServerInfo.at(address.endpoint(Protocol.GRPC)) as server:
        assert default_target(server) == Target(chosen)


def test_no_default_target(serve: Serve) -> None:
    _, address = serve(tokenizer(), engine("llm_bf16", states={"1": ("LOADING", "")}))

    with ServerInfo.at(address.endpoint(Protocol.GRPC)) as server, pytest.raises(ModelNotReadyError) as failure:
        default_target(server)

    assert str(failure.value) == (
        f"no model at grpc://127.0.0.1:{address.grpc_port} that writes text is ready "
        "(chat_tokenizer:1 READY, llm_bf16:1 LOADING); see `./ladder status` (UNAVAILABLE)"
    )
