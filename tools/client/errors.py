"""Everything that can go wrong between a client and a model, as one hierarchy."""

from tools.client.address import Endpoint
from tools.client.request import Target
from tools.wire.error_codes import split_code


class ClientError(Exception):
    """A request did not yield a complete answer.

    Attributes:
        code: the gRPC status name (`INVALID_ARGUMENT`), `HTTP 400` where only HTTP's status is known, or one of this
            client's own words (`UNREACHABLE`, `TRUNCATED`, `MALFORMED`).
        message: what the server (or this client) said, without the target.
        target: the model asked, None for requests to the server itself.
    """

    def __init__(self, code: str, message: str, target: Target | None = None) -> None:
        super().__init__(code, message, target)
        self.code = code
        self.message = message
        self.target = target

    def __str__(self) -> str:
        if self.target is None:
            return f"{self.message} ({self.code})"
        return f'model "{self.target}": {self.message} ({self.code})'


class ServerUnreachableError(ClientError):
    """Nothing answers at the endpoint."""

    def __init__(self, endpoint: Endpoint, reason: str, target: Target | None = None) -> None:
        super().__init__("UNREACHABLE", f"no tritonserver answers at {endpoint.url}: {reason}", target)
        self.endpoint = endpoint

    def __str__(self) -> str:
        return f"{self.message}\nStart one with `./ladder up`, or name another with --port-base or --url."


class ModelUnknownError(ClientError):
    """The repository holds no such model, or not that version of it."""


class ModelNotReadyError(ClientError):
    """The model exists, but no version that could answer is READY."""


class RequestRefusedError(ClientError):
    """The request itself is at fault: INVALID_ARGUMENT, HTTP 4xx, or an input the model does not have.

    Triton's generate endpoints answer every error of a model with 400: the ladder's models write the code at the end of
    the text, but of another model this may also be the engine's fault.
    """


class UnavailableError(ClientError):
    """The model takes no more work now (full queue, engine restarting); the same request may succeed later."""


class RequestCancelledError(ClientError):
    """The request was cancelled on the server's side."""


class DeadlineExceededError(ClientError):
    """The request's deadline passed, in the engine or here."""


class ServerFaultError(ClientError):
    """The server or the engine failed: INTERNAL, UNKNOWN, HTTP 5xx."""


class StreamTruncatedError(ClientError):
    """The stream ended before the final response; what arrived is not the whole answer."""

    def __init__(self, reason: str, target: Target | None = None) -> None:
        super().__init__("TRUNCATED", f"the stream ended before its final response: {reason}", target)


class MalformedResponseError(ClientError):
    """The server sent something that is not in its own contract."""

    def __init__(self, reason: str, target: Target | None = None) -> None:
        super().__init__("MALFORMED", reason, target)


_BY_GRPC_CODE: dict[str, type[ClientError]] = {
    "INVALID_ARGUMENT": RequestRefusedError,
    "OUT_OF_RANGE": RequestRefusedError,
    "FAILED_PRECONDITION": RequestRefusedError,
    "UNIMPLEMENTED": RequestRefusedError,
    "NOT_FOUND": ModelUnknownError,
    "UNAVAILABLE": UnavailableError,
    "RESOURCE_EXHAUSTED": UnavailableError,
    "CANCELLED": RequestCancelledError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
}

_BY_HTTP_STATUS: dict[int, type[ClientError]] = {
    404: ModelUnknownError,
    429: UnavailableError,
    499: RequestCancelledError,
    503: UnavailableError,
    504: DeadlineExceededError,
}


def from_grpc_code(code: str, message: str, target: Target | None) -> ClientError:
    """The error for a gRPC status name."""
    return _BY_GRPC_CODE.get(code, ServerFaultError)(code, message, target)


def from_http_status(status: int, message: str, target: Target | None) -> ClientError:
    """The error for an HTTP status that is not 200, unless the message says a code of its own."""
    if said := said_by_model(message, target):
        return said
    fallback = RequestRefusedError if 400 <= status < 500 else ServerFaultError
    return _BY_HTTP_STATUS.get(status, fallback)(f"HTTP {status}", message, target)


def said_by_model(text: str, target: Target | None) -> ClientError | None:
    """The error that one of the ladder's models ended a request with; None for the words of tritonserver itself."""
    message, code = split_code(text)
    return None if code is None else from_grpc_code(code, message, target)


def deadline_passed(deadline_s: float, target: Target | None) -> DeadlineExceededError:
    """This client's own verdict, for a server that says nothing when the deadline has passed."""
    return DeadlineExceededError(
        "DEADLINE_EXCEEDED", f"no whole answer within the deadline of {deadline_s:g} s", target
    )


def no_template(error: ModelUnknownError | ModelNotReadyError, target: Target) -> ClientError:
    """The error for a conversation sent to an engine on a server without a chat tokenizer."""
    reason = f'model "{error.target}": {error.message}'
    message = f"it takes a prompt, not messages, and the chat template cannot be applied: {reason}"
    return type(error)(error.code, message, target)
