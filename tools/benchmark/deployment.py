"""What a measurement is made on: a tritonserver on ports of its own with a few models, and the load generator."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.client.address import Protocol
from tools.serving.errors import ServingError
from tools.serving.instance import InstanceFiles
from tools.serving.loading import Loading
from tools.serving.ports import require_free
from tools.serving.repository import plan_loading, read_models
from tools.serving.server import Server, ServerPlan

from .child import Child
from .errors import BenchmarkError
from .running import RunningInstance, running_with

# Beside the ports that people give to `up`.
FIRST_PORT_BASE = 8500
_BASES_TRIED = 50
_POLL_S = 0.1

Report = Callable[[str], None]


@contextlib.contextmanager
def serving(
    repository: Path, models: Sequence[str], port_base: int | None, layout: Layout, report: Report
) -> Iterator[Server | RunningInstance]:
    """Serve these models of `repository`; without a port base, on the first free one.

    A server at that port base that holds just these models, configured alike, is used and left running. Raises
    ServingError when the server cannot be started, BenchmarkError when a model does not load.
    """
    running = None if port_base is None else running_with(repository, models, port_base, layout)
    if running is not None:
        report(f"using the server at port base {port_base}")
        yield running
        return
    plan = plan_loading(read_models([repository]), models)
    base = free_port_base(layout) if port_base is None else port_base
    report("starting tritonserver")
    with Server.start(ServerPlan(base, "", (repository,), tuple(models)), layout) as server:
        server.wait_until_live()
        report(f"loading {', '.join(models)}")
        with Loading(plan, server.address.endpoint(Protocol.GRPC)) as loading:
            while not loading.done:
                server.require_alive()
                time.sleep(_POLL_S)
            for model in models:
                if error := loading.error(model):
                    raise BenchmarkError(f'"{model}" could not be loaded: {error}\n{server.log_tail()}')
        yield server


def flood_process(layout: Layout, log: Path) -> Child:
    """The load generator, in the interpreter that runs this."""
    command = [sys.executable, "-X", "utf8", "-m", "tools.benchmark.flood"]
    return Child(command, layout.home, isolated(os.environ), log)


def free_port_base(layout: Layout, first: int = FIRST_PORT_BASE) -> int:
    """The first port base from `first` on that no server of this checkout and nobody else uses. Raises ServingError."""
    for base in range(first, first + 10 * _BASES_TRIED, 10):
        if InstanceFiles.at(base, layout).supervised():
            continue
        with contextlib.suppress(ServingError):
            require_free(base)
            return base
    raise ServingError(f"no free ports from {first} on: give one with --port-base")
