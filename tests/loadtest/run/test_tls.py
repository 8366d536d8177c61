"""Load tests over https and grpcs, against a server whose certificate nobody but the test has signed."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.client.fakes.grpc_front import serve_grpc
from tests.client.fakes.http_front import serve_http
from tests.loadtest.run.locust_process import locust, result_in, slow_triton

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that it has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ladder test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


@pytest.fixture(params=["https", "grpcs"])
def host(request: pytest.FixtureRequest, pem: Path) -> Iterator[str]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    with ExitStack() as stack:
        if request.param == "https":
            port = stack.enter_context(serve_http(slow_triton(), tls))
        else:
            port = stack.enter_context(serve_grpc(slow_triton(), pem.read_bytes()))
        yield f"{request.param}://127.0.0.1:{port}"


def ended(folder: Path, host: str, *arguments: str) -> tuple[int, str]:
    protocol = "grpc" if host.startswith("grpcs") else "generate_stream"
    given = ("--headless", "--only-summary", "--host", host, "--protocol", protocol, "--targets", "quick")
    asked = ("--requests", "8", "-u", "2", "--output-tokens", "2", "--out", str(folder / "out"))
    with locust(folder, *given, *asked, *arguments) as process:
        return process.wait(), process.said()


def test_a_run_over_tls_with_the_authority_named(tmp_path: Path, host: str, pem: Path) -> None:
    code, said = ended(tmp_path, host, "--ca-file", str(pem))

    assert code == 0, said
    (target,) = result_in(tmp_path / "out").targets
    assert (target.requests, target.failures, target.output_tokens) == (8, {}, 16)


def test_a_certificate_that_is_not_trusted_is_said_with_the_option(tmp_path: Path, host: str) -> None:
    code, said = ended(tmp_path, host)

    assert code == 2
    assert f'the certificate of "{host}" is not trusted (self-signed certificate): name the PEM file' in said
    assert "--ca-file" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("content", "reason"), [(None, "no such file or directory"), ("no PEM", "no certificate")])
def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path, host: str, content: str | None, reason: str) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    code, said = ended(tmp_path, host, "--ca-file", str(file))

    assert code == 2
    assert f'--ca-file "{file}" cannot be read ({reason}): give the PEM file of the authority' in said
    assert "Traceback" not in said
