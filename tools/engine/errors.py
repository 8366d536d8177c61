"""What can go wrong with a request, and with the engine as a whole."""

from __future__ import annotations

from tools.wire.error_codes import ErrorCode
from tools.wire.messages import Failure, FailureReason


class RequestError(Exception):
    """A request that cannot be served; `code` is the Triton error code its client gets, `reason` is for a router."""

    def __init__(self, code: ErrorCode, message: str, reason: FailureReason = "") -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.reason: FailureReason = reason

    def as_failure(self) -> Failure:
        # Half a surrogate pair in a quoted value could not be sent, and would take the answers of others with it.
        return Failure(self.code, str(self).encode(errors="backslashreplace").decode(), self.reason)


def invalid(message: str) -> RequestError:
    """A request that its sender has to mend."""
    return RequestError("INVALID_ARG", message)


class EngineDeadError(Exception):
    """The engine behind an adapter has died; the process must end so that its stub can start another."""


class LaunchError(Exception):
    """The engine cannot start with what it was given; starting it again would not help."""
