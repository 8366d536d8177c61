"""How fast this machine's GPU, or its CPU, reads and copies memory.

Decoding one stream reads all weights for each token, so weights over bandwidth is the least TPOT there can be. It is
measured by a process of its own, which gives the GPU back and may be another interpreter's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.bootstrap.layout import Layout
from tools.bootstrap.processes import isolated
from tools.serving.command import ENGINE_PYTHON

from .errors import BenchmarkError

_LIMIT_S = 120.0


class Bandwidth(BaseModel):
    """Bytes a second: `read` of a sum over a buffer, `copy` of a copy within the device, read and write both counted.

    `spread` is the largest over the smallest of the repeats' times, of the read.
    """

    model_config = ConfigDict(frozen=True)

    device: str
    buffer_gib: float
    read_bytes_per_s: float
    copy_bytes_per_s: float
    spread: float


def measured_bandwidth(gib: float, layout: Layout, variables: Mapping[str, str]) -> Bandwidth:
    """Raises BenchmarkError when it cannot be measured."""
    command = [variables.get(ENGINE_PYTHON) or sys.executable, "-m", "tools.benchmark.bandwidth_probe", str(gib)]
    environment = isolated(variables) | {"PYTHONPATH": str(layout.home)}
    try:
        done = subprocess.run(
            command, env=environment, cwd=layout.home, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"the bandwidth could not be measured: {error}") from None
    try:
        return Bandwidth.model_validate_json(done.stdout)
    except ValidationError:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BenchmarkError(f"the bandwidth could not be measured ({last}): try a smaller --gib") from None
