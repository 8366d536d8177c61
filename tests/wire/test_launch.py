from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import zmq

from tools.wire.launch import (
    ANSWERS_SUFFIX,
    MAX_SOCKET_PATH,
    REQUESTS_SUFFIX,
    EngineLaunch,
    answers_endpoint,
    endpoint_file,
    requests_endpoint,
)


def test_both_sockets_are_named_after_the_path() -> None:
    assert requests_endpoint("/run/e") == "ipc:///run/e.req"
    assert answers_endpoint("/run/e") == "ipc:///run/e.out"


@pytest.mark.parametrize("endpoint", [requests_endpoint, answers_endpoint])
def test_a_path_that_no_unix_socket_can_have_is_refused_with_its_length(endpoint: object) -> None:
    assert len(REQUESTS_SUFFIX) == len(ANSWERS_SUFFIX)
    longest = "/" + "x" * (MAX_SOCKET_PATH - len(REQUESTS_SUFFIX) - 1)
    assert endpoint(longest).startswith("ipc://")  # type: ignore[operator]
    with pytest.raises(ValueError) as caught:
        endpoint(longest + "x")  # type: ignore[operator]
    suffix = REQUESTS_SUFFIX if endpoint is requests_endpoint else ANSWERS_SUFFIX
    assert str(caught.value) == (
        f'socket path "{longest}x{suffix}" has 108 bytes, a Unix socket takes 107: '
        "set TMPDIR to a shorter directory (LADDER_SOCKETS where no ./ladder started tritonserver)"
    )


def test_the_length_is_counted_in_bytes() -> None:
    with pytest.raises(ValueError, match="has 124 bytes"):
        requests_endpoint("好" * 40)


def test_the_limit_is_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ZeroMQ takes a path of exactly the limit, and not one byte more."""
    monkeypatch.chdir(tmp_path)
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(f"ipc://{'x' * MAX_SOCKET_PATH}")
        with pytest.raises(zmq.ZMQError, match="is longer than 107 characters"):
            socket.bind(f"ipc://{'x' * (MAX_SOCKET_PATH + 1)}")


def test_the_endpoint_file_names_model_version_and_stub() -> None:
    assert endpoint_file(Path("/run"), "llm.v2", "3", 44) == Path("/run/llm.v2-3-44.endpoint")


def test_a_launch_is_one_line_of_json() -> None:
    launch = EngineLaunch("mock", "m", "1", "/run/e", "/m/1", {"text": "a\nb", "nested": {"x": [1]}}, {"P": "\n"}, True)
    line = msgspec.json.encode(launch)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=EngineLaunch) == launch


def test_a_launch_with_an_unknown_field_is_refused() -> None:
    line = msgspec.json.encode({"adapter": "mock", "mode": "x"})
    with pytest.raises(msgspec.ValidationError, match="unknown field `mode`"):
        msgspec.json.decode(line, type=EngineLaunch)
