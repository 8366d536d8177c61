"""The weights between tracks: a file that Envoy watches (its runtime discovery), and what Envoy divides by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.bootstrap.whole_file import write_durably
from tools.client.address import Protocol
from tools.release.weights import Weights
from tools.spec.release import TENTHS_OF_ALL, tenths

from .errors import FleetError
from .plan import CANARY, STABLE, FleetPlan

_TYPE: Final = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
_ADMIN_S: Final = 2.0


class _Resource(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: str = Field(alias="@type")
    name: str
    layer: dict[str, int]


class _Discovery(BaseModel):
    """What Envoy calls a DiscoveryResponse, in a file."""

    model_config = ConfigDict(extra="ignore")

    resources: tuple[_Resource]


def runtime_text(weights: Weights) -> str:
    """The file's text for weights in percent by track. Raises FleetError unless they make 100 %."""
    layer = {
        f"{FleetPlan.RUNTIME_PREFIX}.{track}_{protocol.value}": tenths(weights.get(track, 0.0))
        for track in (CANARY, STABLE)
        for protocol in Protocol
    }
    unknown = sorted(set(weights) - {CANARY, STABLE})
    if unknown:
        raise FleetError(f'no track "{unknown[0]}": a fleet has "{STABLE}" and "{CANARY}"')
    if sum(layer.values()) != TENTHS_OF_ALL * len(Protocol):
        raise FleetError(f"weights make {sum(layer.values()) / len(Protocol) / 10:g} % together, and not 100 %")
    resource = {"@type": _TYPE, "name": FleetPlan.RUNTIME_LAYER, "layer": layer}
    return json.dumps({"resources": [resource]}, indent=1) + "\n"


def shares(given: Weights) -> dict[str, float]:
    """The weights of both tracks when one of them is given: the other takes what is left."""
    if len(given) != 1:
        return dict(given)
    ((name, weight),) = given.items()
    return {name: weight, STABLE if name == CANARY else CANARY: round(100.0 - weight, 1)}


def read_weights(file: Path) -> dict[str, float]:
    """Weights in percent by track; everything to the stable servers when there is no file. Raises FleetError."""
    try:
        found = _Discovery.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return {STABLE: 100.0}
    except (OSError, ValidationError) as error:
        raise FleetError(
            f'"{file}" is not what ./ladder fleet writes ({type(error).__name__}): remove it, the proxy keeps its '
            "weights, and ./ladder fleet set writes it anew"
        ) from None
    return _by_track(found.resources[0].layer)


def write_weights(file: Path, weights: Weights) -> None:
    """By rename, which is what Envoy waits for; on the disk when this returns. Raises FleetError."""
    text = runtime_text(weights)
    try:
        write_durably(file, text)
    except OSError as error:
        raise FleetError(f'cannot write "{file}": {error.strerror or error}') from error


def weights_in_force(admin: str) -> dict[str, float] | None:
    """What the Envoy at this socket divides by; None while it does not answer."""
    try:
        with admin_client(admin) as client:
            page = client.get("/runtime", params={"format": "json"})
            page.raise_for_status()
            entries: Mapping[str, Mapping[str, str]] = page.json()["entries"]
    except (httpx.HTTPError, OSError):
        return None
    return _by_track({name: int(entry["final_value"]) for name, entry in entries.items() if entry["final_value"]})


def admin_client(admin: str) -> httpx.Client:
    """A client of the Envoy whose admin interface is that socket."""
    transport = httpx.HTTPTransport(uds=admin)
    return httpx.Client(transport=transport, base_url="http://envoy", timeout=_ADMIN_S)


def _by_track(layer: Mapping[str, int]) -> dict[str, float]:
    # Both protocols are always given the same.
    prefix, suffix = f"{FleetPlan.RUNTIME_PREFIX}.", f"_{Protocol.HTTP.value}"
    return {
        name.removeprefix(prefix).removesuffix(suffix): value / 10
        for name, value in layer.items()
        if name.startswith(prefix) and name.endswith(suffix)
    }
