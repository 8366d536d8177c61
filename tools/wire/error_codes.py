"""An error's code at the end of its text: `the queue is full [UNAVAILABLE]`.

tritonserver drops the code of an error on the way to its client: generate and generate_stream answer all of them with
400, or with an event in a stream that is 200 already, and ModelStreamInfer sends the text alone. (The metadata
`triton_grpc_error`, which would bring the code, ends tritonserver 2.51 after some refused streams: SIGSEGV.) A text
with its code reaches every client, through an ensemble too, which only puts its own words before it.
"""

from __future__ import annotations

import re
from typing import Final, Literal

# Triton's names.
ErrorCode = Literal["INVALID_ARG", "UNAVAILABLE", "CANCELLED", "INTERNAL", "UNSUPPORTED", "NOT_FOUND"]

# The names that clients know: gRPC's.
GRPC_NAMES: Final[dict[ErrorCode, str]] = {
    "INVALID_ARG": "INVALID_ARGUMENT",
    "UNAVAILABLE": "UNAVAILABLE",
    "CANCELLED": "CANCELLED",
    "INTERNAL": "INTERNAL",
    "UNSUPPORTED": "UNIMPLEMENTED",
    "NOT_FOUND": "NOT_FOUND",
}

_AT_THE_END = re.compile(rf" \[({'|'.join(GRPC_NAMES.values())})\]\s*\Z")


def with_code(message: str, code: ErrorCode) -> str:
    """`message` as clients get it."""
    return f"{message} [{GRPC_NAMES[code]}]"


def split_code(text: str) -> tuple[str, str | None]:
    """The message, and the gRPC name of its code; None where it is not from one of our models."""
    found = _AT_THE_END.search(text)
    return (text[: found.start()], found[1]) if found else (text, None)
