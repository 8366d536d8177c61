"""What a server holds, and why a target on it cannot answer."""

import difflib
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from tools.client.address import Endpoint
from tools.client.contract import ModelContract
from tools.client.control import ControlPlane, open_control_plane
from tools.client.errors import ClientError, ModelNotReadyError, ModelUnknownError, ServerUnreachableError
from tools.client.request import Target

READY = "READY"


def _version(value: object) -> object:
    # A model that was never loaded (explicit control mode) is listed without a version.
    return None if value == "" else value


class _FromServer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ServerMetadata(_FromServer):
    """Who answers: `triton` and its version."""

    name: str
    version: str


class ModelState(_FromServer):
    """One line of the repository index.

    Attributes:
        version: None for a model that was never loaded.
        state: READY, LOADING, UNLOADING, UNAVAILABLE, or empty for a model that was never loaded.
        reason: the server's reason for the state, for example the traceback of a failed load.
    """

    name: str
    version: Annotated[int | None, BeforeValidator(_version)] = None
    state: str = ""
    reason: str = ""

    @property
    def ready(self) -> bool:
        """Whether the version takes requests."""
        return self.state == READY

    @property
    def target(self) -> Target:
        """The name and version to ask for."""
        return Target(self.name, self.version)


class DurationStatistic(_FromServer):
    """How often something took how long, in nanoseconds, since the model was loaded."""

    count: int = 0
    ns: int = 0

    @property
    def mean_ms(self) -> float | None:
        """Mean duration in milliseconds."""
        return self.ns / self.count / 1e6 if self.count else None


class InferenceStatistics(_FromServer):
    """Durations by stage. For a decoupled model `success` ends with execute(), not with the last response."""

    success: DurationStatistic = DurationStatistic()
    fail: DurationStatistic = DurationStatistic()
    queue: DurationStatistic = DurationStatistic()
    compute_infer: DurationStatistic = DurationStatistic()


class ModelStatistics(_FromServer):
    """The statistics of one version. `last_inference` is in milliseconds since the epoch, 0 for never."""

    name: str
    version: int
    last_inference: int = 0
    inference_count: int = 0
    execution_count: int = 0
    inference_stats: InferenceStatistics = InferenceStatistics()


class ServerInfo:
    """Readiness, models, configs and statistics of one server.

    Contracts are cached, for a load test asks for the same one with every request; `forget` drops them after a reload.
    """

    def __init__(self, control: ControlPlane) -> None:
        self._control = control
        self._contracts: dict[Target, ModelContract] = {}

    @classmethod
    def at(cls, endpoint: Endpoint) -> "ServerInfo":
        """The server at this endpoint; nothing is sent yet."""
        return cls(open_control_plane(endpoint))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoint(self) -> Endpoint:
        """Where the server is asked."""
        return self._control.endpoint

    def is_live(self) -> bool:
        """Whether a server answers; False, not an error, if none does."""
        try:
            return self._control.live()
        except ServerUnreachableError:
            return False

    def is_ready(self) -> bool:
        """Whether the server says that it can serve; False, not an error, if none answers."""
        try:
            return self._control.ready()
        except ServerUnreachableError:
            return False

    def metadata(self) -> ServerMetadata:
        """The server's name and version."""
        return ServerMetadata.model_validate(self._control.metadata())

    def models(self) -> list[ModelState]:
        """Every model and version in the repositories, ready or not, by name and version."""
        states = [ModelState.model_validate(entry) for entry in self._control.index()]
        return sorted(states, key=lambda state: (state.name, state.version or 0))

    def ready_targets(self) -> list[Target]:
        """Every version that takes requests, by name and version."""
        return [state.target for state in self.models() if state.ready]

    def is_model_ready(self, target: Target) -> bool:
        """Whether the target (any version of it, if it names none) takes requests."""
        return any(_matches(ready, target) for ready in self.ready_targets())

    def statistics(self, target: Target | None = None) -> list[ModelStatistics]:
        """Statistics of all ready models, or of one.

        Raises:
            ClientError: the target is unknown or not ready.
        """
        return [ModelStatistics.model_validate(entry) for entry in self._control.statistics(target)]

    def contract(self, target: Target) -> ModelContract:
        """The target's tensors.

        Raises:
            ModelUnknownError: no such model or version; names what there is.
            ModelNotReadyError: it is there, but cannot answer.
        """
        if target not in self._contracts:
            try:
                config = self._control.config(target)
            except ServerUnreachableError:
                raise
            except ClientError:
                self.explain(target)
                raise
            self._contracts[target] = ModelContract.from_config(config)
        return self._contracts[target]

    def forget(self) -> None:
        """Drop all cached contracts."""
        self._contracts.clear()

    def explain(self, target: Target) -> None:
        """Look for the reason why a request to the target failed; returns if the target is in order.

        Raises:
            ServerUnreachableError: the server is gone.
            ModelUnknownError: no such model or version; names what there is.
            ModelNotReadyError: it is there, but cannot answer.
        """
        states = self.models()
        named = [state for state in states if state.name == target.model]
        if not named:
            raise ModelUnknownError("NOT_FOUND", _unknown_model(target, states), target)
        wanted = [state for state in named if target.version in (None, state.version)]
        if not wanted:
            versions = ", ".join(f"{state.version} ({state.state})" for state in named if state.version is not None)
            raise ModelUnknownError(
                "NOT_FOUND", f"there is no version {target.version}; the server has {versions or 'none loaded'}", target
            )
        if not any(state.ready for state in wanted):
            raise ModelNotReadyError("UNAVAILABLE", _not_ready(wanted), target)

    def close(self) -> None:
        """Close the connection."""
        self._control.close()


def _matches(ready: Target, target: Target) -> bool:
    return ready.model == target.model and target.version in (None, ready.version)


def _unknown_model(target: Target, states: Sequence[ModelState]) -> str:
    names = sorted({state.name for state in states if state.ready})
    if not names:
        return "the server knows no such model, and none of its models is ready; see `./ladder status`"
    nearest = difflib.get_close_matches(target.model, names, n=1)
    hint = f'; did you mean "{nearest[0]}"?' if nearest else "; ask for one of them"
    return f"the server knows no such model; ready are {', '.join(names)}{hint}"


def _not_ready(states: Sequence[ModelState]) -> str:
    described = []
    for state in states:
        reason = state.reason.strip().partition("\n")[0]
        what = "it was never loaded" if state.version is None else f"version {state.version} is {state.state}"
        described.append(f"{what} ({reason})" if reason else what)
    return f"not ready: {'; '.join(described)}. See `./ladder status` and `./ladder logs`"
