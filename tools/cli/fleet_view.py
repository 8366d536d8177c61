"""A fleet, for people."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tools.fleet.control import FleetStatus
from tools.fleet.keeper import addresses
from tools.release.weights import same, text_of

_NUMBERS = {"starts", "requests", "errors", "in flight"}
_STYLES = {"ready": "green", "down": "red", "gone": "red"}


def fleet_view(status: FleetStatus) -> Group:
    """Addresses and weights, then a line for the proxy and for each server."""
    state = status.state
    uptime = timedelta(seconds=int(time.time() - state.started))
    parts: list[Text | Table] = [Text(f"{state.plan.title}, for {uptime}  {addresses(state.plan)}")]
    if not status.kept:
        clear = f"./ladder fleet down --port-base {state.plan.port_base} clears it up"
        parts.append(Text(f"  its keeper was killed, and its servers were stopped: {clear}", style="red"))
    parts.append(Text(f"weights: {text_of(status.weights)}"))
    if status.in_force is not None and not same(status.in_force, status.weights):
        parts.append(Text(f"  the proxy still divides by {text_of(status.in_force)}", style="yellow"))
    return Group(*parts, _servers(status))


def _servers(status: FleetStatus) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("server", "ports", "state", "starts", "requests", "errors", "in flight", "note"):
        table.add_column(
            heading, justify="right" if heading in {"starts", "requests", "errors", "in flight"} else "left"
        )
    proxy = status.state.proxy
    proxy_phase = proxy.phase if status.kept else "gone"
    base = status.state.plan.port_base
    table.add_row(
        proxy.name, f"{base} - {base + 2}", Text(proxy_phase, style=_STYLES.get(proxy_phase, "yellow")),
        str(proxy.starts), "", "", "", proxy.reason,
    )  # fmt: skip
    bases = {member.name: member.port_base for member in status.state.plan.members}
    for server in status.state.servers:
        phase = server.phase if status.kept else "gone"
        seen = status.traffic.get(server.name)
        left_out = seen is not None and not seen.healthy and server.phase == "ready"
        note = "gets no requests: the proxy finds it unhealthy" if left_out else server.reason
        table.add_row(
            server.name,
            f"{bases[server.name]} - {bases[server.name] + 2}",
            Text(phase, style=_STYLES.get(phase, "yellow")),
            str(server.starts),
            *(["", "", ""] if seen is None else [str(seen.requests), str(seen.errors), str(seen.in_flight)]),
            note.partition("\n")[0],
        )
    return table
