"""The process above a fleet: starts the servers and the proxy, starts again what dies, and ends all of it in order.

Every server and the proxy has a supervisor of its own, whose lifeline is this process: however this one ends, they end.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from tools.bootstrap.failures import describe
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.client.address import Protocol
from tools.release.weights import Weights
from tools.serving import ports
from tools.serving.errors import ServingError
from tools.serving.instance import Instance, InstanceFiles, new_id
from tools.serving.loading import Loading
from tools.serving.repository import plan_loading, read_models
from tools.serving.server import Server, ServerPlan, start_supervisor
from tools.serving.supervisor import DRAIN_S, Order
from tools.serving.sweep import VARIABLE

from . import proxy
from .errors import FleetError
from .files import FleetFiles, FleetState
from .plan import STABLE, FleetPlan, Member
from .process import KeptProcess, Tell
from .weights import admin_client, read_weights, write_weights

_POLL_S: Final = 0.2
_PROXY_READY_S: Final = 30.0
ADMIN: Final = "admin.sock"


class Keeper:
    """One fleet, by the process that holds its lock. To be run in the main thread."""

    def __init__(self, fleet: FleetPlan, layout: Layout, tell: Tell) -> None:
        self._fleet = fleet
        self._layout = layout
        self._files = FleetFiles.at(fleet.port_base, layout)
        self._tell = _undisturbed(tell)
        self._unwritten = False
        self._started = time.time()
        self._admin = ""
        self._written: FleetState | None = None
        self._servers = [self._server(member) for member in fleet.members]
        self._proxy = KeptProcess("envoy", self._launch_proxy, self._make_proxy_ready, self._tell)
        self._program = proxy.binary(layout)

    def run(self, interrupted: threading.Event) -> None:
        """Keep the fleet until `interrupted` is set. Raises FleetError and ServingError when it cannot be started."""
        ports.require_free(self._fleet.port_base)
        self._prepare_weights()
        try:
            self._start(self._servers, interrupted)
            self._start([self._proxy], interrupted)
            if not interrupted.is_set():
                self._tell(f"Serving: {addresses(self._fleet)}.")
            while not interrupted.wait(_POLL_S):
                self._write_if_possible()
        finally:
            self._stop(interrupted)

    def _prepare_weights(self) -> None:
        """The proxy watches a file, so there has to be one: what was in force before, if this fleet can do it."""
        weights = read_weights(self._files.weights)
        known: Weights = {name: weight for name, weight in weights.items() if name in self._fleet.tracks}
        if sum(known.values()) != sum(weights.values()):
            self._tell("there is no canary now, so everything goes to the stable servers")
            known = {STABLE: 100.0}
        write_weights(self._files.weights, known)

    def _start(self, processes: list[KeptProcess], interrupted: threading.Event) -> None:
        if interrupted.is_set():
            return
        for process in processes:
            process.start()
        while not all(process.ready for process in processes):
            self._write()
            for process in processes:
                if process.failed:
                    raise FleetError(f"{process.state.name} cannot be started: {process.state.reason}")
            if interrupted.wait(_POLL_S):
                return

    def _stop(self, interrupted: threading.Event) -> None:
        asked = interrupted.is_set()
        interrupted.clear()
        if asked and self._proxy.ready:
            self._drain(interrupted)
        for process in (self._proxy, *self._servers):
            process.ask_to_stop()
        for process in (self._proxy, *self._servers):
            process.stop(lambda _: None)
        self._files.state.unlink(missing_ok=True)
        self._tell("Stopped: nothing of the fleet is left.")

    def _drain(self, interrupted: threading.Event) -> None:
        """New connections are refused, and streams finished, until the servers' own limit or another interruption."""
        deadline = time.monotonic() + DRAIN_S
        try:
            with admin_client(self._admin) as client:
                client.post("/drain_listeners").raise_for_status()
                while (left := _in_flight(client)) and time.monotonic() < deadline and not interrupted.is_set():
                    self._tell(f"waiting for {left} requests in flight; Ctrl-C again does not")
                    interrupted.wait(1.0)
        except (httpx.HTTPError, OSError):
            self._tell("the proxy does not answer, so nothing is waited for")

    # Servers

    def _server(self, member: Member) -> KeptProcess:
        track = self._fleet.track(member.track)
        repositories = tuple(map(Path, track.repositories))
        plan = ServerPlan(member.port_base, track.profile, repositories, track.models)
        return KeptProcess(
            member.name,
            lambda: Server.start(plan, self._layout),
            lambda server, loads: _load(server, plan, self._fleet.probe, loads),
            self._tell,
        )

    # The proxy

    def _launch_proxy(self) -> Server:
        fleet, layout = self._fleet, self._layout
        files = InstanceFiles(self._files.proxy)
        identity = new_id(fleet.port_base)
        sockets = Path(tempfile.gettempdir()) / f"ladder-{identity}"
        self._admin = str(sockets / ADMIN)
        paths = proxy.ProxyPaths(
            admin=self._admin,
            weights=str(self._files.weights),
            weights_folder=str(self._files.weights_folder),
            access_log=str(self._files.access_log),
        )
        self._files.proxy.mkdir(parents=True, exist_ok=True)
        self._files.config.write_text(proxy.render_config(fleet, paths), encoding="utf-8")
        order = Order(
            instance=Instance(
                id=identity, port_base=fleet.port_base, profile="", repositories=(), models=(), sockets=str(sockets)
            ),
            folder=str(files.folder),
            command=proxy.command(self._program, self._files.config),
            environment={**isolated(os.environ), VARIABLE: identity},
            program="envoy",
        )  # fmt: skip
        return Server(order.instance, files, start_supervisor(order, files, layout))

    def _make_proxy_ready(self, server: Server, loads: Callable[[], None]) -> str:
        deadline = time.monotonic() + _PROXY_READY_S
        while not _answers(self._admin):
            server.require_alive()
            if time.monotonic() > deadline:
                raise ServingError(f"Envoy does not answer after {_PROXY_READY_S:g} s\n{server.log_tail()}")
            time.sleep(_POLL_S)
        return ""

    # State

    def _write(self) -> None:
        state = FleetState(
            plan=self._fleet,
            keeper=os.getpid(),
            started=self._started,
            admin=self._admin,
            proxy=self._proxy.state,
            servers=tuple(process.state for process in self._servers),
        )
        if state != self._written:
            state.write(self._files)
            self._written = state

    def _write_if_possible(self) -> None:
        """Servers that run are not ended for a state that a full disk does not take: it is tried again."""
        try:
            self._write()
        except OSError as error:
            if not self._unwritten:
                self._tell(f"the fleet goes on, but its state cannot be written: {describe(error)}")
            self._unwritten = True
        else:
            self._unwritten = False


def _undisturbed(tell: Tell) -> Tell:
    """A log on a full disk, or a reader that hung up, must not end a thread that keeps a server."""

    def say(line: str) -> None:
        with contextlib.suppress(OSError):
            tell(line)

    return say


def addresses(fleet: FleetPlan) -> str:
    """Where the fleet is asked, for people."""
    return f"HTTP {fleet.http_port}, gRPC {fleet.grpc_port}, the proxy's metrics {fleet.metrics_port} on 127.0.0.1"


def _load(server: Server, plan: ServerPlan, probe: str, loads: Callable[[], None]) -> str:
    """Load the models. Returns which did not become ready, and why; raises ServingError when the probe is one."""
    server.wait_until_live()
    loads()
    models = plan_loading(read_models(plan.repositories), plan.models)
    with Loading(models, server.address.endpoint(Protocol.GRPC)) as loading:
        while not loading.done:
            server.require_alive()
            time.sleep(_POLL_S)
        errors = {model: error for model in models.names if (error := loading.error(model))}
    if probe in errors:
        raise ServingError(f'"{probe}" could not be loaded: {errors[probe]}\n{server.log_tail()}')
    return "; ".join(f'"{model}" could not be loaded: {error}' for model, error in errors.items())


def _answers(admin: str) -> bool:
    try:
        with admin_client(admin) as client:
            return client.get("/ready").status_code == httpx.codes.OK
    except (httpx.HTTPError, OSError):
        return False


def _in_flight(client: httpx.Client) -> int:
    text = client.get("/stats", params={"filter": "^http.requests.downstream_rq_active$"}).text
    return int(text.rpartition(":")[2] or 0)
