"""The check before a run, against fake servers, in this process: it works with and without gevent."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from loadtest.errors import LoadTestError
from loadtest.options import LoadOptions, Protocol
from loadtest.users.targets import check_targets
from loadtest.workloads.planned import PlannedRequest
from tests.client.conftest import Serve
from tests.client.fakes.openai_front import FakeOpenAi, serve_openai
from tests.client.fakes.triton import Fail, FakeModel, engine, ensemble, tokenizer
from tools.client.address import ServerAddress

KSERVE = [Protocol.GENERATE_STREAM, Protocol.GENERATE, Protocol.GRPC]
PROMPT = PlannedRequest(max_tokens=1, prompt="once")


def run(port: int, protocol: Protocol, *targets: str, scheme: str = "") -> LoadOptions:
    scheme = scheme or ("grpc" if protocol is Protocol.GRPC else "http")
    return LoadOptions(
        host=f"{scheme}://127.0.0.1:{port}", targets=targets or ("llm_bf16",), protocol=protocol, deadline_s=5
    )


def port_of(address: ServerAddress, protocol: Protocol) -> int:
    return address.grpc_port if protocol is Protocol.GRPC else address.http_port


def refusal(options: LoadOptions, sample: PlannedRequest = PROMPT) -> str:
    with pytest.raises(LoadTestError) as failure:
        check_targets(options, sample)
    return str(failure.value)


@pytest.mark.parametrize("protocol", KSERVE)
def test_a_server_in_order(serve: Serve, protocol: Protocol) -> None:
    triton, address = serve(engine("llm_bf16"), ensemble("chat_bf16"), tokenizer())

    check_targets(run(port_of(address, protocol), protocol, "llm_bf16:1", "chat_bf16"))

    # Only the tokenizer was asked for anything.
    assert {seen.model for seen in triton.seen} == {"chat_tokenizer"}


@pytest.mark.parametrize("protocol", KSERVE)
def test_nobody_listens(protocol: Protocol) -> None:
    scheme = "grpc" if protocol is Protocol.GRPC else "http"

    assert refusal(run(1, protocol)) == (
        f'nothing listens at "{scheme}://127.0.0.1:1" (Connection refused): '
        "start the server with `./ladder up`, or give its address with --host"
    )


def test_a_name_that_cannot_be_resolved() -> None:
    options = LoadOptions(host="http://no-such-host.invalid:8000", targets=("llm_bf16",))

    assert refusal(options).startswith('host name "no-such-host.invalid" cannot be resolved (')


@pytest.mark.parametrize("protocol", [Protocol.GENERATE_STREAM, Protocol.GENERATE, Protocol.OPENAI])
def test_http_to_the_grpc_port(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16"))

    assert refusal(run(address.grpc_port, protocol)) == (
        f'"http://127.0.0.1:{address.grpc_port}" speaks gRPC, protocol "{protocol}" needs HTTP: '
        "tritonserver's HTTP port is one below its gRPC port (8000 by default)"
    )


def test_grpc_to_the_http_port(serve: Serve) -> None:
    _, address = serve(engine("llm_bf16"))

    assert refusal(run(address.http_port, Protocol.GRPC)) == (
        f'"grpc://127.0.0.1:{address.http_port}" speaks HTTP, protocol "grpc" needs gRPC: '
        "tritonserver's gRPC port is one above its HTTP port (8001 by default)"
    )


@contextmanager
def one_port_for(address: ServerAddress) -> Iterator[int]:
    """A proxy whose port takes HTTP/1 and HTTP/2, as Envoy's does."""

    def carry(source: socket.socket, sink: socket.socket, said: bytes = b"") -> None:
        with contextlib.suppress(OSError):
            while said := said or source.recv(65536):
                sink.sendall(said)
                said = b""
            sink.shutdown(socket.SHUT_WR)

    def connect(client: socket.socket) -> None:
        said = client.recv(65536)
        port = address.grpc_port if said.startswith(b"PRI ") else address.http_port
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=carry, args=(server, client), daemon=True)
            back.start()
            carry(client, server, said)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=connect, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("protocol", KSERVE)
def test_a_proxy_takes_http_and_grpc_on_one_port(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16"))
    with one_port_for(address) as port:
        check_targets(run(port, protocol), PROMPT)


@pytest.mark.parametrize("protocol", [Protocol.GENERATE, Protocol.GRPC])
def test_tls_to_a_port_without(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16"))
    port = port_of(address, protocol)
    scheme, name = ("grpc", "gRPC") if protocol is Protocol.GRPC else ("http", "HTTP")

    assert refusal(run(port, protocol, scheme=f"{scheme}s")) == (
        f'"{scheme}s://127.0.0.1:{port}" speaks {name} without TLS: give {scheme}://127.0.0.1:{port} as the host'
    )


@pytest.mark.parametrize("protocol", [Protocol.GENERATE, Protocol.GRPC])
def test_a_port_that_wants_tls(tls_port: int, protocol: Protocol) -> None:
    scheme = "grpc" if protocol is Protocol.GRPC else "http"

    assert refusal(run(tls_port, protocol)) == (
        f'"{scheme}://127.0.0.1:{tls_port}" wants TLS: give {scheme}s://127.0.0.1:{tls_port} as the host'
    )


def test_a_port_that_speaks_something_else() -> None:
    with _listening(lambda connection: connection.sendall(b"220 mail ready\r\n")) as port:
        assert refusal(run(port, Protocol.GENERATE)) == (
            f'"http://127.0.0.1:{port}" speaks neither HTTP nor gRPC nor TLS, protocol "generate" needs HTTP: '
            "give the address of a tritonserver or an OpenAI server"
        )


def test_an_http_server_that_is_no_tritonserver() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")

    with _listening(answer) as port:
        assert refusal(run(port, Protocol.GENERATE)) == (
            f'"http://127.0.0.1:{port}" is not a tritonserver (no (HTTP 404)): give the port it serves on, '
            "8000 for HTTP and 8001 for gRPC by default (8002 has metrics only)"
        )


@pytest.mark.parametrize("protocol", KSERVE)
@pytest.mark.parametrize(
    ("models", "target", "message"),
    [
        ((engine("llm_awq"),), "llm_bf16", 'model "llm_bf16": the server knows no such model; ready are llm_awq'),
        ((engine("llm_bf16"),), "llm_bf16:7", 'model "llm_bf16:7": there is no version 7; the server has 1 (READY)'),
        (
            (engine("llm_bf16", states={"1": ("LOADING", "")}),),
            "llm_bf16",
            'model "llm_bf16": not ready: version 1 is LOADING',
        ),
        (
            (tokenizer(),),
            "chat_tokenizer",
            'target "chat_tokenizer" does not write text: it has no output "text_output", '
            'only "prompt", "input_ids", "num_input_tokens"; take another',
        ),
    ],
)
def test_models_that_cannot_be_asked(
    serve: Serve, protocol: Protocol, models: tuple[FakeModel, ...], target: str, message: str
) -> None:
    _, address = serve(*models)

    assert refusal(run(port_of(address, protocol), protocol, target)).startswith(message)


def _without(model: FakeModel, name: str) -> FakeModel:
    model.inputs = {key: kind for key, kind in model.inputs.items() if key != name}
    return model


@pytest.mark.parametrize("protocol", KSERVE)
@pytest.mark.parametrize("name", ["return_num_output_tokens", "return_finish_reason"])
def test_a_model_whose_answers_cannot_be_counted(serve: Serve, protocol: Protocol, name: str) -> None:
    _, address = serve(_without(engine("llm_bf16"), name))

    assert refusal(run(port_of(address, protocol), protocol)).startswith(
        f'target "llm_bf16" has no input "{name}", so its answers could not be counted or known to be whole; '
    )


def test_generate_of_a_model_that_always_streams(serve: Serve) -> None:
    _, address = serve(_without(engine("llm_bf16"), "stream"))

    assert refusal(run(address.http_port, Protocol.GENERATE)) == (
        'target "llm_bf16" always streams (it has no input "stream"), which protocol "generate" cannot take: '
        'take "generate_stream" or "grpc"'
    )


@pytest.mark.parametrize("protocol", KSERVE)
def test_messages_need_a_chat_template(serve: Serve, protocol: Protocol) -> None:
    _, address = serve(engine("llm_bf16"))
    options = run(port_of(address, protocol), protocol)

    check_targets(options, PROMPT)
    with pytest.raises(LoadTestError) as failure:
        check_targets(options)

    assert str(failure.value).startswith(
        'model "llm_bf16": it takes a prompt, not messages, and the chat template cannot be applied: '
        'model "chat_tokenizer": the server knows no such model'
    )


@pytest.mark.parametrize("protocol", KSERVE)
def test_the_tokenizers_own_refusal(serve: Serve, protocol: Protocol) -> None:
    refuses = tokenizer(script=lambda _: [Fail("INVALID_ARGUMENT", "no template")])
    _, address = serve(engine("llm_bf16"), refuses)

    with pytest.raises(LoadTestError, match=r'^model "chat_tokenizer": no template'):
        check_targets(run(port_of(address, protocol), protocol))


def test_a_prompt_for_a_model_that_takes_messages_only(serve: Serve) -> None:
    _, address = serve(ensemble("chat_bf16"))

    assert refusal(run(address.http_port, Protocol.GENERATE, "chat_bf16")).startswith(
        'model "chat_bf16": it has no input "text_input", which this request needs; '
    )


def test_openai_models() -> None:
    with serve_openai(FakeOpenAi(models=("llm_bf16", "llm_awq"))) as port:
        check_targets(run(port, Protocol.OPENAI, "llm_awq", "llm_bf16"))
        assert refusal(run(port, Protocol.OPENAI, "llm_bf61")) == (
            'target "llm_bf61": the server knows no such model; it has llm_bf16, llm_awq; did you mean "llm_bf16"?'
        )
        assert refusal(run(port, Protocol.OPENAI, "llm_bf16:1")) == (
            'target "llm_bf16:1": the OpenAI API knows no versions; give "llm_bf16"'
        )


def test_kserve_to_an_openai_server() -> None:
    with serve_openai(FakeOpenAi()) as port:
        assert refusal(run(port, Protocol.GENERATE)) == (
            f'"http://127.0.0.1:{port}" is an OpenAI server, not a tritonserver: take protocol "openai"'
        )


def test_openai_to_a_tritonserver(serve: Serve) -> None:
    _, address = serve(engine("llm_bf16"))

    assert refusal(run(address.http_port, Protocol.OPENAI)) == (
        f'"http://127.0.0.1:{address.http_port}" is a tritonserver, which has no OpenAI API on this port: '
        'take protocol "generate_stream", or give the port of its OpenAI front end (9000 by default)'
    )


@contextmanager
def _listening(answer: object) -> Iterator[int]:
    """A port on which every connection is handed to `answer` and closed."""
    assert callable(answer)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(5)
                        answer(connection)
                except OSError:
                    if server.fileno() == -1:
                        return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


@pytest.fixture(scope="module")
def tls_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(_self_signed())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with _listening(lambda connection: context.wrap_socket(connection, server_side=True).close()) as port:
        yield port


def _self_signed() -> bytes:
    """A key and its certificate, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    ).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
