"""Which model answers when the user names none."""

from collections.abc import Iterable

from tools.client.errors import ModelNotReadyError
from tools.client.request import Target
from tools.client.server_info import ServerInfo

_FAVOURITE = "chat_bf16"


def default_target(server: ServerInfo) -> Target:
    """`chat_bf16` if it is ready, else the first ready `chat_*`, else the first ready model that writes text.

    Raises:
        ServerUnreachableError: no server.
        ModelNotReadyError: no ready model writes text.
    """
    for name in _by_preference({target.model for target in server.ready_targets()}):
        target = Target(name)
        if "text_output" in server.contract(target).outputs:
            return target
    states = ", ".join(f"{state.target} {state.state or 'not loaded'}" for state in server.models())
    raise ModelNotReadyError(
        "UNAVAILABLE",
        f"no model at {server.endpoint.url} that writes text is ready ({states or 'its repositories are empty'}); "
        "see `./ladder status`",
    )


def _by_preference(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != _FAVOURITE, not name.startswith("chat"), name))
