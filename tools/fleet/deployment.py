"""A fleet elsewhere: Kubernetes manifests with the same weights, and what watches it. Pure: texts by path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tools.bootstrap.ports import DEFAULT_BASE
from tools.release.observation import BLAMELESS
from tools.rendering.environment import json_text, template_environment
from tools.rendering.plan import ROUTER
from tools.spec.base import failure
from tools.spec.profile import Profile
from tools.spec.release import TENTHS_OF_ALL, Percent, tenths
from tools.wire import release_metrics as names

from .dashboard import release_dashboard
from .plan import CANARY, STABLE, FleetPlan, Track, TrackName

KUBERNETES: Final = PurePosixPath("kubernetes")
MONITORING: Final = PurePosixPath("monitoring")

# A name that every metrics adapter takes; vLLM's own has a colon.
WAITING: Final = "ladder_requests_waiting"
_WAITING_PER_POD: Final = 8
# What a client of several servers may call: nothing that changes one of them.
GRPC_METHODS: Final = (
    "ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics",
    "RepositoryIndex", "ModelInfer", "ModelStreamInfer",
)  # fmt: skip
_RESOURCES: Final = ("models.yaml", "stable.yaml", "canary.yaml", "gateway.yaml", "metrics.yaml")


# As Kubernetes takes them, and nothing that would be more than one value in a manifest.
Image = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$")]
GatewayClass = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Drain(_Value):
    """How a pod leaves, in seconds: a pause for the others to hear of it, then tritonserver's own limit."""

    pause_s: int = 15
    exit_timeout_s: int = 30

    @property
    def grace_s(self) -> int:
        """When it is killed, with some room."""
        return self.pause_s + self.exit_timeout_s + 15


class PodTrack(_Value):
    """Pods of one image: between `servers` and `most_servers` of them."""

    name: TrackName
    image: Image
    servers: Annotated[int, Field(ge=1)]
    most_servers: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _grows(self) -> PodTrack:
        if self.most_servers < self.servers:
            raise failure(
                f'at most {self.most_servers} pods of "{self.name}" are fewer than {self.servers}, the fewest'
            )
        return self


class Deployment(_Value):
    """A fleet in a cluster. The canary gets `canary_percent` of the requests, by gateways of `gateway_class`."""

    stable: PodTrack = PodTrack(name=STABLE, image="triton-llm-ladder:ladder", servers=2, most_servers=8)
    canary: PodTrack = PodTrack(name=CANARY, image="triton-llm-ladder:canary", servers=1, most_servers=8)
    canary_percent: Percent = 0.0
    gateway_class: GatewayClass = "eg"

    @property
    def weights(self) -> dict[TrackName, int]:
        """In tenths of a percent, as Gateway API divides by them."""
        canary = tenths(self.canary_percent)
        return {STABLE: TENTHS_OF_ALL - canary, CANARY: canary}


def deployment_files(deployment: Deployment, profile: Profile) -> dict[PurePosixPath, str]:
    """Text of every file below docker/, by path. The same values give the same bytes."""
    return {**_kubernetes(deployment, profile), **_monitoring()}


def _kubernetes(deployment: Deployment, profile: Profile) -> dict[PurePosixPath, str]:
    variables: dict[str, Any] = {"waiting": WAITING}
    tracks = {
        f"{track.name}.yaml": {
            **variables, "track": track, "profile": profile, "drain": Drain(), "waiting_per_pod": _WAITING_PER_POD,
        }
        for track in (deployment.stable, deployment.canary)
    }  # fmt: skip
    gateway = {"deployment": deployment, "methods": GRPC_METHODS}
    files = {
        "kustomization.yaml": _render("kubernetes/kustomization.yaml", {"resources": _RESOURCES}),
        "models.yaml": _render("kubernetes/models.yaml", {}),
        **{name: _render("kubernetes/track.yaml", values) for name, values in tracks.items()},
        "gateway.yaml": _render("kubernetes/gateway.yaml", gateway),
        "metrics.yaml": _render("kubernetes/metrics.yaml", {}),
        "prometheus-adapter.yaml": _render("kubernetes/prometheus-adapter.yaml", variables),
    }
    return {KUBERNETES / name: text for name, text in files.items()}


def _monitoring() -> dict[PurePosixPath, str]:
    track = Track(servers=1, profile="", repositories=(), models=(ROUTER,))
    fleet = FleetPlan(port_base=9000, stable=track.model_copy(update={"servers": 2}), canary=track, probe=ROUTER)
    scrape = {"fleet": fleet, "server_base": DEFAULT_BASE}
    return {
        MONITORING / "prometheus.yml": _render("monitoring/prometheus.yml", scrape),
        MONITORING / "alerts.yml": _render(
            "monitoring/alerts.yml", {"names": names, "blameless": "|".join(sorted(BLAMELESS))}
        ),
        MONITORING / "grafana" / "release.json": json_text(release_dashboard()) + "\n",
    }


def _render(name: str, variables: Mapping[str, Any]) -> str:
    template = f"fleet/{name}.j2"
    return template_environment().get_template(template).render({**variables, "template": template})
