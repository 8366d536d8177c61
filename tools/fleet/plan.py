"""What a fleet is made of: its servers, where each listens, and what the proxy in front of them allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.client.address import Protocol, ServerAddress
from tools.spec.base import failure

TrackName = Literal["stable", "canary"]
STABLE: Final[TrackName] = "stable"
CANARY: Final[TrackName] = "canary"

# Server number n listens from n times this above the fleet's own ports.
PORT_STEP: Final = 10
MOST_SERVERS: Final = 16
# Of one server. Envoy counts those of a track in 32 bits.
MOST_IN_FLIGHT: Final = 1_000_000


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Value):
    """What the proxy does to protect the servers. `in_flight_per_server` counts HTTP and gRPC apart.

    A server is ejected for `ejection_s` seconds after `errors_to_eject` server errors or broken connections in a row.
    `answer_s` bounds requests that do not stream.
    """

    in_flight_per_server: Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)] = 256
    errors_to_eject: Annotated[int, Field(ge=1)] = 5
    ejection_s: Annotated[int, Field(ge=1)] = 5
    retry_after_s: Annotated[int, Field(ge=1)] = 1
    answer_s: Annotated[int, Field(ge=1)] = 600


class Member(_Value):
    """One tritonserver of the fleet, an instance with its own ports and state."""

    name: str
    track: TrackName
    port_base: int

    @property
    def address(self) -> ServerAddress:
        return ServerAddress.from_port_base(self.port_base)

    @property
    def http_port(self) -> int:
        return self.address.http_port

    def port_of(self, protocol: str) -> int:
        """The port that speaks "http" or "grpc"."""
        return self.address.endpoint(Protocol(protocol)).port


class Track(_Value):
    """Servers that serve the same: a profile's repositories, or with an empty `profile` those of somebody else.

    `models` names what they load, `servers` how many there are.
    """

    servers: Annotated[int, Field(ge=1, le=MOST_SERVERS)]
    profile: str
    repositories: tuple[str, ...]
    models: tuple[str, ...]

    @property
    def title(self) -> str:
        """What they serve, for people."""
        return f'profile "{self.profile}"' if self.profile else f"repositories {', '.join(self.repositories)}"


class FleetPlan(_Value):
    """A fleet at a port base: requests over HTTP and gRPC on it and the next port, the proxy's metrics on the third.

    `probe` is the model that has to be ready before a server gets requests, on all tracks.
    """

    RUNTIME_PREFIX: ClassVar[str] = "fleet.weight"
    RUNTIME_LAYER: ClassVar[str] = "weights"
    # Whoever sends the same name here gets the same track, over HTTP and gRPC alike.
    USER_HEADER: ClassVar[str] = "x-ladder-user"
    # In every response: which server gave it.
    SERVER_HEADER: ClassVar[str] = "x-ladder-server"
    # How the text begins with which an engine refuses what its queue has no room for.
    FULL: ClassVar[str] = "the queue is full"
    # What changes one server, and would leave the others as they are.
    OF_ONE_SERVER: ClassVar[tuple[str, ...]] = (
        "/v2/repository/models/.*/(load|unload)",
        "/v2/(system|cuda)sharedmemory/.*",
        "/v2/.*/trace/setting",
        "/v2/(trace/setting|logging)",
        "/inference.GRPCInferenceService/RepositoryModel.*",
        "/inference.GRPCInferenceService/.*SharedMemory.*",
        "/inference.GRPCInferenceService/.*Settings?",
    )
    REFUSAL: ClassVar[str] = (
        '{"error":"this would change one server of several: send it to the server itself, whose ports ./ladder fleet '
        'status shows"}'
    )

    port_base: int
    stable: Track
    canary: Track | None = None
    probe: str
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _canary_can_stand_in(self) -> FleetPlan:
        if self.canary is not None and self.probe not in self.canary.models:
            raise failure(f'the canary servers have no model "{self.probe}", which the stable ones have: add it')
        return self

    @model_validator(mode="after")
    def _ports_exist(self) -> FleetPlan:
        highest = self.port_base + PORT_STEP * len(list(self.members)) + 2
        if highest > 65535:
            raise failure(f"the last server would listen on port {highest}: choose a lower port base")
        return self

    @property
    def title(self) -> str:
        """The fleet, for people."""
        canary = f" and {self.canary.servers} canary" if self.canary else ""
        return f"fleet at port {self.port_base}: {self.stable.servers} stable{canary}"

    @property
    def http_port(self) -> int:
        return self.port_base

    @property
    def grpc_port(self) -> int:
        return self.port_base + 1

    @property
    def metrics_port(self) -> int:
        return self.port_base + 2

    @property
    def tracks(self) -> tuple[TrackName, ...]:
        """The canary first: see the weights in the proxy's template."""
        return (CANARY, STABLE) if self.canary else (STABLE,)

    def track(self, name: TrackName) -> Track:
        """The track of that name. Raises KeyError for a canary that the fleet does not have."""
        found = self.stable if name == STABLE else self.canary
        if found is None:
            raise KeyError(name)
        return found

    @property
    def members(self) -> Iterator[Member]:
        """All servers, the stable ones first."""
        number = 0
        for name in reversed(self.tracks):
            for index in range(self.track(name).servers):
                number += 1
                yield Member(name=f"{name}-{index}", track=name, port_base=self.port_base + PORT_STEP * number)

    def of_track(self, name: TrackName) -> list[Member]:
        """The track's servers."""
        return [member for member in self.members if member.track == name]

    def by_priority(self, name: TrackName) -> list[list[Member]]:
        """The servers that answer the track's requests, and those that do as long as the first cannot."""
        own = self.of_track(name)
        return [own] if name == STABLE else [own, self.of_track(STABLE)]

    def max_in_flight(self, name: TrackName) -> int:
        """Requests that may be in flight to the track's servers, over each of the two protocols."""
        return self.limits.in_flight_per_server * self.track(name).servers

    @property
    def probe_path(self) -> str:
        """What a server that can answer answers with 200."""
        return f"/v2/models/{self.probe}/ready"
