"""How a stub starts its engine process: one JSON line on the engine's standard input, which then stays open.

The open pipe is the engine's lifeline. When it closes, for whatever reason the stub ended, the engine ends its whole
process group, so nothing outlives tritonserver.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

AdapterName = Literal["vllm", "transformers", "tokenizer", "router", "mock"]

REQUESTS_SUFFIX: Final = ".req"
ANSWERS_SUFFIX: Final = ".out"
# Names the socket of a ready engine, for peers other than its own stub.
ENDPOINT_SUFFIX: Final = ".endpoint"
# An engine that ends on an error leaves its reason in this file.
REASON_SUFFIX: Final = ".reason"

# Variable with the path of the running state of the release, which wins over the file named in config.pbtxt.
RELEASE_STATE: Final = "LADDER_RELEASE_STATE"

# sockaddr_un.sun_path holds 108 bytes with its closing zero.
MAX_SOCKET_PATH: Final = 107


class EngineLaunch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything an engine process is told.

    `socket` is the path both sockets are named after; `arguments` is the version's model.json; `parameters` are
    config.pbtxt's parameters, values as text; `model_directory` is the version's folder.
    """

    adapter: AdapterName
    model: str
    version: str
    socket: str
    model_directory: str
    arguments: dict[str, Any]
    parameters: dict[str, str] = {}
    metrics: bool = False


def requests_endpoint(socket: str) -> str:
    """ZeroMQ address of the engine's PULL socket. Raises ValueError when the path is too long for a Unix socket."""
    return _endpoint(socket, REQUESTS_SUFFIX)


def answers_endpoint(socket: str) -> str:
    """ZeroMQ address of the engine's ROUTER socket. Raises ValueError when the path is too long for a Unix socket."""
    return _endpoint(socket, ANSWERS_SUFFIX)


def endpoint_file(directory: Path, model: str, version: str, stub_pid: int) -> Path:
    """File that names the socket of a ready engine of this model version, for peers other than its own stub."""
    return directory / f"{model}-{version}-{stub_pid}{ENDPOINT_SUFFIX}"


def _endpoint(socket: str, suffix: str) -> str:
    path = socket + suffix
    if len(path.encode()) > MAX_SOCKET_PATH:
        raise ValueError(
            f'socket path "{path}" has {len(path.encode())} bytes, a Unix socket takes {MAX_SOCKET_PATH}: '
            "set TMPDIR to a shorter directory (LADDER_SOCKETS where no ./ladder started tritonserver)"
        )
    return f"ipc://{path}"
