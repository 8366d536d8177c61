import pytest

from tools.client.address import Endpoint, Protocol, ServerAddress


@pytest.mark.parametrize(
    ("text", "protocol", "expected"),
    [
        ("127.0.0.1:8001", None, Endpoint(Protocol.GRPC, "127.0.0.1", 8001)),
        ("localhost:8000", Protocol.HTTP, Endpoint(Protocol.HTTP, "localhost", 8000)),
        ("http://localhost:8000/", None, Endpoint(Protocol.HTTP, "localhost", 8000)),
        ("grpcs://triton.example:443", None, Endpoint(Protocol.GRPC, "triton.example", 443, tls=True)),
        ("[::1]:8001", None, Endpoint(Protocol.GRPC, "::1", 8001)),
    ],
)
def test_parse(text: str, protocol: Protocol | None, expected: Endpoint) -> None:
    assert Endpoint.parse(text, protocol) == expected


@pytest.mark.parametrize(
    ("text", "protocol", "message"),
    [
        ("localhost", None, '"localhost" is not of the form host:port, for example 127.0.0.1:8001'),
        (":8000", None, '":8000" is not of the form host:port, for example 127.0.0.1:8001'),
        ("host:99999", None, '"host:99999": Port out of range 0-65535'),
        ("ftp://host:1", None, '"ftp://host:1": unknown scheme "ftp"; use one of http, https, grpc, grpcs'),
        ("http://host:1", Protocol.GRPC, '"http://host:1" speaks http, but the protocol asked for is grpc'),
        (
            "http://host:1/v2/models",
            None,
            '"http://host:1/v2/models": give only scheme, host and port; paths are the client\'s business',
        ),
    ],
)
def test_parse_refuses(text: str, protocol: Protocol | None, message: str) -> None:
    with pytest.raises(ValueError) as refusal:
        Endpoint.parse(text, protocol)

    assert str(refusal.value) == message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "https://h:1", "grpc://[::1]:8001", "grpcs://triton.example:443"]
)
def test_url_is_what_parse_reads(url: str) -> None:
    assert Endpoint.parse(url).url == url


def test_ports_follow_the_port_base() -> None:
    address = ServerAddress.from_port_base(18300)

    assert address.endpoint(Protocol.HTTP).url == "http://127.0.0.1:18300"
    assert address.endpoint(Protocol.GRPC).url == "grpc://127.0.0.1:18301"
    assert address.metrics_port == 18302
