"""A real Envoy with the rendered configuration, in front of servers that a test plays."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.fleet.upstreams import Upstream
from tests.waiting import wait_until
from tools.bootstrap.environments import FLEET
from tools.bootstrap.layout import Layout
from tools.bootstrap.preparation import prepare
from tools.fleet import proxy
from tools.fleet.plan import CANARY, STABLE, FleetPlan, Limits, Track
from tools.fleet.proxy import ProxyPaths
from tools.fleet.weights import weights_in_force, write_weights
from tools.release.weights import Weights, same

FIRST_BASE = 8920
LIMITS = Limits(in_flight_per_server=64, errors_to_eject=3, ejection_s=1)


def track(servers: int) -> Track:
    return Track(servers=servers, profile="cpu-smollm2", repositories=("/repository",), models=("chat",))


def plan(port_base: int = 9000, *, stable: int = 2, canary: int = 1, limits: Limits = LIMITS) -> FleetPlan:
    return FleetPlan(
        port_base=port_base,
        stable=track(stable),
        canary=track(canary) if canary else None,
        probe="chat",
        limits=limits,
    )


@pytest.fixture(scope="session")
def envoy() -> Path:
    """Envoy's program; its environment is built when it is not there."""
    layout = Layout.of_this_checkout()
    prepare([FLEET], layout)
    return proxy.binary(layout)


@dataclass
class Proxied:
    """A fleet of played servers behind Envoy."""

    plan: FleetPlan
    upstreams: dict[str, Upstream]
    paths: ProxyPaths
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.plan.http_port}/v2/models/chat/generate"

    @property
    def of_canary(self) -> Upstream:
        return self.upstreams["canary-0"]

    def asked(self, track: str) -> int:
        """Requests that servers of a track have got."""
        return sum(upstream.asked.total() for name, upstream in self.upstreams.items() if name.startswith(track))

    def weigh(self, weights: Weights) -> None:
        """Set the weights and wait until Envoy divides by them."""
        write_weights(Path(self.paths.weights), weights)
        wait_until(lambda: same(weights_in_force(self.paths.admin) or {}, weights))

    def stat(self, name: str) -> int:
        """One of Envoy's counters."""
        with httpx.Client(transport=httpx.HTTPTransport(uds=self.paths.admin), base_url="http://envoy") as client:
            text = client.get("/stats", params={"filter": f"^{name}$"}).text
        return int(text.rpartition(":")[2] or 0)


@pytest.fixture
def proxied(envoy: Path, tmp_path: Path) -> Iterator[Callable[..., Proxied]]:
    """Makes one."""
    with ExitStack() as stack:

        def make(stable: int = 2, canary: int = 1, weights: Weights | None = None, limits: Limits = LIMITS) -> Proxied:
            fleet = plan(free_base(stable + canary), stable=stable, canary=canary, limits=limits)
            # A socket's path may have 107 characters, and pytest's folders have long names.
            folder = Path(tempfile.mkdtemp(prefix="fleet-"))
            stack.callback(shutil.rmtree, folder)
            paths = ProxyPaths(
                admin=str(folder / "admin.sock"),
                weights=str(tmp_path / "weights" / "runtime.json"),
                weights_folder=str(tmp_path / "weights"),
                access_log=str(tmp_path / "access.log"),
            )
            write_weights(Path(paths.weights), weights or {STABLE: 100.0})
            config = tmp_path / "envoy.yaml"
            config.write_text(proxy.render_config(fleet, paths), encoding="utf-8")
            upstreams = {}
            for member in fleet.members:
                upstreams[member.name] = Upstream(member)
                stack.callback(upstreams[member.name].stop)
            process = subprocess.Popen(proxy.command(envoy, config), stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            wait_until(lambda: listens(fleet.http_port))
            return Proxied(fleet, upstreams, paths, process)

        yield make


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_base(servers: int) -> int:
    """The first port base from FIRST_BASE on where a fleet of that many servers fits."""
    for base in range(FIRST_BASE, 20_000, 10 * (servers + 1)):
        ports = [base + 10 * number + offset for number in range(servers + 1) for offset in range(3)]
        if not any(listens(port) for port in ports):
            return base
    raise AssertionError("no free ports")


__all__ = ["CANARY", "STABLE", "Proxied", "plan", "track"]
