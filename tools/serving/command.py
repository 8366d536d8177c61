"""tritonserver's command line and the variables of everything below it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.bootstrap.environments import ENGINE
from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.release.file import running_file
from tools.serving.backend_directory import ServerSoftware
from tools.serving.instance import Instance
from tools.serving.supervisor import DRAIN_S
from tools.serving.sweep import VARIABLE
from tools.wire.launch import RELEASE_STATE

LOOPBACK = "127.0.0.1"
# The interpreter engines run on; a user sets it to bring vLLM's CUDA build.
ENGINE_PYTHON = "LADDER_ENGINE_PYTHON"
# gRPC metadata that becomes request parameters.
FORWARDED_HEADERS = "(?i)x-ladder-.*"


def server_command(instance: Instance, software: ServerSoftware, backends: Path) -> tuple[str, ...]:
    """tritonserver on loopback, empty at first: models are then loaded one by one, and their states can be watched."""
    http, grpc, metrics = (str(instance.port_base + offset) for offset in range(3))
    return (
        str(software.binary),
        "--id=ladder",
        *(f"--model-repository={repository}" for repository in instance.repositories),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={instance.shared_memory}",
        # The configs are complete; without this every stub would start twice.
        "--disable-auto-complete-config",
        "--model-control-mode=explicit",
        f"--model-load-thread-count={_loads_at_once()}",
        # The release router may choose by them. HTTP's generate endpoints forward none, whatever is set.
        f"--grpc-header-forward-pattern={FORWARDED_HEADERS}",
        # Otherwise health/ready is 400 while any model loads, whatever the others do.
        "--strict-readiness=false",
        f"--http-address={LOOPBACK}",
        f"--http-port={http}",
        f"--grpc-address={LOOPBACK}",
        f"--grpc-port={grpc}",
        "--allow-metrics=true",
        f"--metrics-address={LOOPBACK}",
        f"--metrics-port={metrics}",
        f"--exit-timeout-secs={DRAIN_S}",
        "--log-format=ISO8601",
    )


def server_environment(
    instance: Instance, software: ServerSoftware, layout: Layout, variables: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """`variables` with what tritonserver, its stubs and their engines need."""
    return isolated(variables) | {
        "PATH": _joined([str(software.bin), variables.get("PATH", os.defpath)]),
        "LD_LIBRARY_PATH": _joined([*map(str, software.libraries), variables.get("LD_LIBRARY_PATH", "")]),
        "LADDER_HOME": str(layout.home),
        ENGINE_PYTHON: variables.get(ENGINE_PYTHON) or str(layout.environment_python(ENGINE.name)),
        "LADDER_ENGINE_LIBRARY_PATH": variables.get("LD_LIBRARY_PATH", ""),
        "LADDER_SOCKETS": instance.sockets,
        # vLLM's own, which it leaves behind where its processes are killed, then go with the instance's.
        "VLLM_RPC_BASE_PATH": variables.get("VLLM_RPC_BASE_PATH") or instance.sockets,
        RELEASE_STATE: str(running_file(layout, instance.port_base, instance.profile, instance.repositories)),
        VARIABLE: instance.id,
        # setproctitle, which vLLM uses, would otherwise overwrite the environment that processes are found by.
        "SPT_NOENV": "1",
    }


def _loads_at_once() -> int:
    """As many as there are cores: more would only keep the slowest, which is begun first, from its core."""
    return max(2, len(os.sched_getaffinity(0)))


def _joined(folders: Sequence[str]) -> str:
    return os.pathsep.join(folder for folder in folders if folder)
