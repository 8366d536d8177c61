"""GPUs by name, and the machine at hand. Memory is what CUDA reports, of which gpu_memory_utilization is a share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import psutil

from tools.bootstrap.doctor.gpu import Gpu, NoGpuError, installed_gpus
from tools.planning.errors import PlanningError
from tools.planning.units import GIB, MIB
from tools.spec.base import nearest
from tools.spec.model import Target

AUTO: Final = "auto"
CPU: Final = "cpu"

# cudaMemGetInfo's total in GiB as public logs show it: the driver keeps 0.4 to 0.9 GiB of what nvidia-smi calls total.
_KNOWN: Final = {
    "l4": 22.0,
    "a10g": 22.0,
    "rtx4090": 23.5,
    "a100-40g": 39.4,
    "l40s": 44.4,
    "h100": 79.1,
    "a100-80g": 79.2,
    "h200": 139.7,
    "b200": 178.3,
}
_KEPT_BY_THE_DRIVER: Final = int(0.6 * GIB)


@dataclass(frozen=True, slots=True)
class Device:
    """Memory that a plan is made for, in bytes; `taken` is what other programs hold of it now."""

    name: str
    accelerator: Literal["cpu", "cuda"]
    total: int
    taken: int = 0


def known_devices() -> list[Device]:
    """Every GPU that has a name, smallest first."""
    return [_known(name) for name in sorted(_KNOWN, key=_KNOWN.__getitem__)]


def device_of(name: str | None, target: Target) -> Device:
    """The GPU called `name`, the first one here for "auto", the host for "cpu"; without a name the profile's target.

    Names are the same in capitals.

    Raises PlanningError for a name nobody knows, and for "auto" on a machine without a GPU.
    """
    if name is None and target.accelerator == "cuda":
        return Device("the profile's target", "cuda", target.gpu_memory_gib * GIB)
    key = CPU if name is None else name.lower()
    if key == CPU:
        return _host()
    if key == AUTO:
        return _here()
    if key not in _KNOWN:
        raise PlanningError(f'no GPU "{name}":{_question(key)} known are {", ".join((*_KNOWN, CPU, AUTO))}')
    return _known(key)


def of_gpu(gpu: Gpu) -> Device:
    """What nvidia-smi says of a GPU, as CUDA would."""
    total = gpu.total * MIB - _KEPT_BY_THE_DRIVER
    return Device(f"GPU {gpu.index}, {gpu.name}", "cuda", total, taken=max(0, total - gpu.free * MIB))


def _question(word: str) -> str:
    closest = nearest(word, [*_KNOWN, AUTO, CPU])
    # "a100" is two GPUs here, and by its letters nearest to a third.
    guesses = [known for known in _KNOWN if known.startswith(word)] or ([closest] if closest else [])
    quoted = " or ".join(f'"{guess}"' for guess in guesses)
    return f" did you mean {quoted}?" if guesses else ""


def _known(name: str) -> Device:
    return Device(name, "cuda", int(_KNOWN[name] * GIB))


def _here() -> Device:
    try:
        return of_gpu(installed_gpus()[0])
    except NoGpuError as error:
        raise PlanningError(
            f'no GPU to plan for with "--gpu {AUTO}" ({error}): name one ({", ".join(_KNOWN)}), '
            f'or plan for this machine without a GPU with "--gpu {CPU}"'
        ) from None


def _host() -> Device:
    return Device("this machine's memory", "cpu", psutil.virtual_memory().total)
