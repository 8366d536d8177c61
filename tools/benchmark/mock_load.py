"""Loads on models whose engine generates without computing: what such a measurement is told, and how it is made."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from tools.serving.server import Server

from .child import Child
from .cpu_time import processes_by_role
from .pairs import Measure
from .running import RunningInstance
from .workload import Load, ServedLoad, Tally

WARM_UP_S = 0.5
# Enough that one connection's flow control does not hold the others back, few enough to cost next to nothing.
_CONNECTIONS = 8
# The server's own deadline for a request is the profile's; this one only ends what hangs.
_PATIENCE_S = 120.0


class MockSettings(BaseModel):
    """`step_s` is the time between two steps of the engine, 0 for as fast as it can; `tokens` are per request."""

    model_config = ConfigDict(frozen=True)

    profile: str
    streams: tuple[int, ...]
    tokens: int
    step_s: float
    seconds: float
    repeats: int


def measure_with(flood: Child, server: Server | RunningInstance, model: str) -> Measure:
    """Runs a load on one model of the server, and counts the CPU time of all its processes."""

    def measure(load: Load) -> Tally:
        order = ServedLoad(
            load=load,
            port=server.address.grpc_port,
            model=model,
            connections=_CONNECTIONS,
            processes=processes_by_role(server.instance.id),
        )
        return flood.measure(order, load.seconds + _PATIENCE_S)

    return measure
