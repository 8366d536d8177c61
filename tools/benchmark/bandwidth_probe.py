"""`python -m tools.benchmark.bandwidth_probe GIB`: prints a Bandwidth as JSON. The engine's interpreter runs it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import torch

from .bandwidth import Bandwidth

_REPEATS = 10
_GIB = 1 << 30


def measure(gib: float, device: str) -> Bandwidth:
    """Medians of ten runs, after two that are not counted. Raises RuntimeError where the memory is not to be had."""
    count = int(gib * _GIB) // 4
    source = torch.ones(count, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    reads = _times(lambda: source.sum(), device)
    copies = _times(lambda: target.copy_(source), device)
    return Bandwidth(
        device=torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads",
        buffer_gib=gib,
        read_bytes_per_s=4 * count / median(reads),
        copy_bytes_per_s=8 * count / median(copies),
        spread=max(reads) / min(reads),
    )


def _times(work: Callable[[], object], device: str) -> list[float]:
    for _ in range(2):
        work()
    return [_time(work, device) for _ in range(_REPEATS)]


def _time(work: Callable[[], object], device: str) -> float:
    if device != "cuda":
        started = time.perf_counter()
        work()
        return time.perf_counter() - started
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


if __name__ == "__main__":
    print(measure(float(sys.argv[1]), "cuda" if torch.cuda.is_available() else "cpu").model_dump_json(indent=2))
