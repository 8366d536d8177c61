"""The server that the tests ask, its models that come and go, and the processes behind it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tests.e2e import repository
from tools.benchmark.deployment import free_port_base
from tools.bootstrap.layout import Layout
from tools.client.address import Protocol, ServerAddress
from tools.client.grpc_channel import open_channel
from tools.client.request import Target
from tools.client.server_info import ServerInfo
from tools.serving.command import LOOPBACK
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.loading import Loading
from tools.serving.preparation import prepare
from tools.serving.repository import LoadPlan, plan_loading, read_models
from tools.serving.server import Server, ServerPlan
from tools.serving.status import STUB
from tools.serving.sweep import processes_of
from tools.spec.loading import load_profile

# A slow machine is no reason to fail: only a hang is.
LOAD_S = 400.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Deployment:
    """A running server of this checkout."""

    address: ServerAddress

    @property
    def log(self) -> str:
        """What tritonserver and everything below it has written so far."""
        return self._files.server_log.read_text(encoding="utf-8", errors="replace")

    def has_ended(self) -> bool:
        """Whether nobody listens any more."""
        try:
            socket.create_connection((LOOPBACK, self.address.http_port), timeout=10).close()
        except ConnectionRefusedError:
            return True
        return False

    @contextlib.contextmanager
    def loaded(self, model: str) -> Iterator[None]:
        """Load a model for a while. Raises grpc.RpcError with the server's reason when it does not load."""
        self.load(model)
        try:
            yield
        finally:
            self.unload(model)

    def load(self, model: str) -> None:
        with self._stub() as stub:
            stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name=model), timeout=LOAD_S)

    def unload(self, model: str) -> None:
        with self._stub() as stub:
            stub.RepositoryModelUnload(service_pb2.RepositoryModelUnloadRequest(model_name=model), timeout=LOAD_S)

    def is_ready(self, model: str, version: int | None = None) -> bool:
        with self.info() as info:
            return info.is_model_ready(Target(model, version))

    def info(self) -> ServerInfo:
        return ServerInfo.at(self.address.endpoint(Protocol.GRPC))

    def stub_of(self, model: str, version: int = 1) -> psutil.Process:
        """The process of tritonserver's Python backend that serves this version; an older one may still be ending."""
        stubs = [process for process in self._processes() if _serves(process, model, version)]
        assert stubs, f'no stub serves "{model}" version {version}'
        return max(stubs, key=psutil.Process.create_time)

    def engine_of(self, model: str, version: int = 1) -> psutil.Process | None:
        """The engine process of this version; None while there is none."""
        engines = [child for child in self.stub_of(model, version).children() if "tools.engine" in child.cmdline()]
        assert len(engines) <= 1, f'"{model}" has several engines: {engines}'
        return engines[0] if engines else None

    def engines(self) -> dict[str, int]:
        """Process id of every engine that serves now, by model and version."""
        with self.info() as info:
            targets = info.ready_targets()
        found = {}
        for target in targets:
            with contextlib.suppress(AssertionError):  # an ensemble has no process
                if engine := self.engine_of(target.model, target.version or 1):
                    found[str(target)] = engine.pid
        return found

    def _processes(self) -> Iterator[psutil.Process]:
        for pid in processes_of(self._instance.id):
            with contextlib.suppress(psutil.NoSuchProcess):
                yield psutil.Process(pid)

    @property
    def _files(self) -> InstanceFiles:
        return InstanceFiles.at(self.address.http_port, Layout.of_this_checkout())

    @property
    def _instance(self) -> Instance:
        instance = Instance.read(self._files)
        assert instance is not None, "the server is gone"
        return instance

    @contextlib.contextmanager
    def _stub(self) -> Iterator[service_pb2_grpc.GRPCInferenceServiceStub]:
        channel = open_channel(self.address.endpoint(Protocol.GRPC))
        try:
            yield service_pb2_grpc.GRPCInferenceServiceStub(channel)
        finally:
            channel.close()


def _serves(process: psutil.Process, model: str, version: int) -> bool:
    try:
        command = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return bool(command) and Path(command[0]).name == STUB and Path(command[1]).parts[-3:-1] == (model, str(version))


def extra_models(layout: Layout) -> Path:
    """The repository of the models that only tests load."""
    return layout.private / "e2e"


@contextlib.contextmanager
def serving() -> Iterator[Deployment]:
    """A server on free ports, for as long as the context lasts."""
    layout = Layout.of_this_checkout()
    with _start(free_port_base(layout), layout) as server:
        yield Deployment(server.address)


def reuse_or_start(port_base: int) -> Deployment:
    """The server at this port base; one is started, to stay, where there is none."""
    layout = Layout.of_this_checkout()
    if not InstanceFiles.at(port_base, layout).supervised():
        with _start(port_base, layout) as server:
            server.detach()
    return Deployment(ServerAddress.from_port_base(port_base))


@contextlib.contextmanager
def _start(port_base: int, layout: Layout) -> Iterator[Server]:
    profile = load_profile()
    prepared = prepare(profile, layout, print)
    assert not prepared.lint.failed, prepared.lint.findings
    repository.write(extra_models(layout), layout.home, profile)
    plan = plan_loading(read_models(prepared.repositories))
    order = ServerPlan(port_base, profile.name, (*prepared.repositories, extra_models(layout)), plan.names)
    with Server.start(order, layout) as server:
        server.wait_until_live()
        _load(server, plan)
        yield server


def _load(server: Server, plan: LoadPlan) -> None:
    until = time.monotonic() + LOAD_S
    with Loading(plan, server.address.endpoint(Protocol.GRPC)) as loading:
        while not loading.done:
            server.require_alive()
            assert time.monotonic() < until, f"not loaded after {LOAD_S:g} s\n{server.log_tail()}"
            time.sleep(_POLL_S)
        failures = {name: error for name in plan.names if (error := loading.error(name))}
    assert not failures, f"{failures}\n{server.log_tail()}"
