"""What an instance is doing, as plain values: from its state file, its server and its processes."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from tools.bootstrap.layout import Layout
from tools.client.address import Protocol, ServerAddress
from tools.client.errors import ClientError
from tools.client.server_info import ServerInfo
from tools.serving.instance import Instance, InstanceFiles
from tools.serving.speculation import SpeculationStatus, speculation_at
from tools.serving.sweep import processes_of

STUB = "triton_python_backend_stub"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class ModelStatus(_Value):
    """One version of one model as the server lists it; `version` is None for a model that was never loaded."""

    name: str
    version: int | None
    state: str
    reason: str


class ProcessStatus(_Value):
    """One process of the instance. `memory_bytes` is its resident set."""

    pid: int
    role: str
    memory_bytes: int


class Ports(_Value):
    """Where the server listens, on loopback."""

    http: int
    grpc: int
    metrics: int


class InstanceStatus(_Value):
    """One instance of this checkout. `phase` is "orphaned" when its supervisor is gone and nobody has cleared up yet.

    `models` and `speculation` are empty while the server does not answer.
    """

    port_base: int
    title: str
    profile: str
    phase: str
    reason: str
    detached: bool
    uptime_s: float
    ports: Ports
    models: list[ModelStatus]
    speculation: list[SpeculationStatus]
    processes: list[ProcessStatus]

    @property
    def running(self) -> bool:
        return self.phase == "running"


def status_of(port_base: int, layout: Layout) -> InstanceStatus | None:
    """The instance at a port base; None when nothing is written down there.

    Raises ServingError when what is written cannot be read.
    """
    files = InstanceFiles.at(port_base, layout)
    instance = Instance.read(files)
    if instance is None:
        return None
    supervised = files.supervised()
    phase = instance.phase if supervised or instance.phase == "failed" else "orphaned"
    return InstanceStatus(
        port_base=port_base,
        title=instance.title,
        profile=instance.profile,
        phase=phase,
        reason=instance.reason,
        detached=instance.detached,
        uptime_s=round(time.time() - instance.started, 1),
        ports=Ports(http=port_base, grpc=port_base + 1, metrics=port_base + 2),
        models=model_states(port_base) if supervised else [],
        speculation=speculation_at(port_base + 2) if supervised else [],
        processes=_processes(instance, supervised=supervised),
    )


def model_states(port_base: int) -> list[ModelStatus]:
    """The server's own list, by name and version; empty when it does not answer."""
    endpoint = ServerAddress.from_port_base(port_base).endpoint(Protocol.GRPC)
    with ServerInfo.at(endpoint) as info:
        try:
            states = info.models()
        except ClientError:
            return []
    return [ModelStatus(**state.model_dump()) for state in states]


def _processes(instance: Instance, *, supervised: bool) -> list[ProcessStatus]:
    pids = ([instance.supervisor] if supervised else []) + sorted(processes_of(instance.id))
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            role = "supervisor" if pid == instance.supervisor else _role(process.cmdline())
            found.append(ProcessStatus(pid=pid, role=role, memory_bytes=process.memory_info().rss))
        except psutil.NoSuchProcess:
            continue
    return found


def _role(command: list[str]) -> str:
    """What a process is, by its command line: tritonserver, a stub with its model, or an engine."""
    program = Path(command[0]).name if command else ""
    if program == STUB:
        # Its first argument is .../MODEL/VERSION/model.py.
        model, version = Path(command[1]).parts[-3:-1]
        return f"stub of {model} version {version}"
    if "tools.engine" in command:
        return "engine"
    if any("multiprocessing.resource_tracker" in argument for argument in command):
        return "resource tracker of an engine"
    return program or "ended"
