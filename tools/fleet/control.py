"""What a person asks of a fleet that runs: how it does, and to end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
from pydantic import BaseModel, ConfigDict

from tools.bootstrap.layout import Layout
from tools.client.address import Protocol
from tools.release.weights import Weights
from tools.serving.instance import InstanceFiles
from tools.serving.stopping import clear_leftovers, stop

from .errors import FleetError
from .files import FleetFiles, FleetState
from .weights import admin_client, read_weights, weights_in_force

_POLL_S: Final = 0.1
# Servers are killed after 25 s, and then swept up for some more.
_GIVE_UP_S: Final = 60.0


class ServerTraffic(BaseModel):
    """What the proxy has seen of a server, over both protocols, since the proxy was started."""

    model_config = ConfigDict(frozen=True)

    healthy: bool
    requests: int
    errors: int
    in_flight: int


class FleetStatus(BaseModel):
    """A fleet with what its proxy says. `in_force` is None while the proxy does not answer, `traffic` is by server."""

    model_config = ConfigDict(frozen=True)

    state: FleetState
    kept: bool
    weights: Weights
    in_force: Weights | None
    traffic: dict[str, ServerTraffic]

    @property
    def running(self) -> bool:
        """Whether everything of it can answer."""
        return self.kept and self.state.ready


def status_of(port_base: int, layout: Layout) -> FleetStatus | None:
    """The fleet at a port base; None when nothing is written down there. Raises FleetError."""
    files = FleetFiles.at(port_base, layout)
    state = FleetState.read(files)
    if state is None:
        return None
    return FleetStatus(
        state=state,
        kept=files.kept(),
        weights=read_weights(files.weights),
        in_force=weights_in_force(state.admin) if state.admin else None,
        traffic=_traffic(state),
    )


def down(port_base: int, layout: Layout, report: Callable[[str], None]) -> bool:
    """End a fleet, and clear what a killed keeper left; False when there was nothing. Raises FleetError."""
    files = FleetFiles.at(port_base, layout)
    kept = files.kept()
    if kept:
        _end_keeper(files, report)
    left = FleetState.read(files) is not None
    clear(port_base, layout, report)
    return kept or left


def clear(port_base: int, layout: Layout, report: Callable[[str], None]) -> None:
    """Remove what is left of a fleet that nobody keeps any more. Raises FleetError and ServingError."""
    files = FleetFiles.at(port_base, layout)
    state = FleetState.read(files)
    if state is None:
        return
    # A keeper that was killed takes its servers with it; one whose supervisor was killed too may be left.
    for member in state.plan.members:
        stop(InstanceFiles.at(member.port_base, layout), report)
    clear_leftovers(InstanceFiles(files.proxy))
    files.state.unlink(missing_ok=True)


def _end_keeper(files: FleetFiles, report: Callable[[str], None]) -> None:
    keeper = files.keeper()
    if keeper is None:
        raise FleetError("the fleet's keeper is just being started: ./ladder fleet down again, in a moment")
    report("requests in flight are finished first")
    with contextlib.suppress(ProcessLookupError):
        os.kill(keeper, signal.SIGTERM)
    deadline = time.monotonic() + _GIVE_UP_S
    while files.kept():
        if time.monotonic() > deadline:
            raise FleetError(
                f"the fleet's keeper (process {keeper}) did not end within {_GIVE_UP_S:g} s: kill -9 {keeper}, then "
                "./ladder fleet down again"
            )
        time.sleep(_POLL_S)


def _traffic(state: FleetState) -> dict[str, ServerTraffic]:
    if not state.admin:
        return {}
    try:
        with admin_client(state.admin) as client:
            page = client.get("/clusters", params={"format": "json"})
            page.raise_for_status()
            clusters: list[dict[str, Any]] = page.json()["cluster_statuses"]
    except (httpx.HTTPError, OSError):
        return {}
    by_port: dict[int, list[dict[str, Any]]] = {}
    for cluster in clusters:
        for host in cluster.get("host_statuses", ()):
            port = host["address"].get("socket_address", {}).get("port_value")
            by_port.setdefault(port, []).append(host)
    return {
        member.name: _of_hosts([host for protocol in Protocol for host in by_port.get(member.port_of(protocol), ())])
        for member in state.plan.members
    }


def _of_hosts(hosts: list[dict[str, Any]]) -> ServerTraffic:
    counts = {"rq_total": 0, "rq_error": 0, "rq_active": 0}
    healthy = bool(hosts)
    for host in hosts:
        for stat in host["stats"]:
            if stat["name"] in counts:
                counts[stat["name"]] += int(stat.get("value", 0))
        health = host["health_status"]
        healthy = healthy and not health.get("failed_active_health_check") and not health.get("failed_outlier_check")
    return ServerTraffic(
        healthy=healthy, requests=counts["rq_total"], errors=counts["rq_error"], in_flight=counts["rq_active"]
    )
