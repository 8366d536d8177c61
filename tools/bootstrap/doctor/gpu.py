"""Checks of NVIDIA GPUs, through nvidia-smi. A machine without one is fit for the CPU profile."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tools.bootstrap.doctor.findings import Finding

OLDEST_DRIVER = 535
LOWEST_CAPABILITY = (8, 0)
# Weights of a 7B model in bf16, and little KV cache.
LEAST_FREE_MIB = 16 * 1024
FIELDS = "index,name,compute_cap,driver_version,memory.free,memory.total"


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB."""

    index: int
    name: str
    capability: tuple[int, int]
    driver: str
    free: int
    total: int


class NoGpuError(Exception):
    """No GPU can be used here; the text says how that shows, `fix` what to do when a GPU is wanted."""

    def __init__(self, reason: str, fix: str = "") -> None:
        super().__init__(reason)
        self.fix = fix


def gpus_are_fit() -> list[Finding]:
    try:
        return [finding for gpu in installed_gpus() for finding in judge(gpu)]
    except NoGpuError as error:
        if error.fix:
            return [Finding("warn", "GPU", str(error), error.fix)]
        return [Finding("warn", "GPU", f"none ({error})", "the default profile, cpu-smollm2, needs none")]


def installed_gpus() -> list[Gpu]:
    """The GPUs that nvidia-smi lists, at least one. Raises NoGpuError."""
    command = ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=20, check=True)
    except FileNotFoundError:
        raise NoGpuError("no nvidia-smi on PATH") from None
    except subprocess.TimeoutExpired:
        raise NoGpuError("no answer from nvidia-smi in 20 s", "check the driver: dmesg | grep -i nvrm") from None
    except subprocess.CalledProcessError as error:
        words = (error.stdout or error.stderr or "").strip().splitlines()
        raise NoGpuError(words[0] if words else f"nvidia-smi ended with code {error.returncode}") from None
    gpus = parse(answer.stdout)
    if not gpus:
        raise NoGpuError("nvidia-smi lists none")
    return gpus


def parse(text: str) -> list[Gpu]:
    """GPUs out of nvidia-smi's CSV answer for FIELDS. Raises ValueError on a line of another shape."""
    gpus = []
    for line in text.splitlines():
        if not line.strip():
            continue
        index, name, capability, driver, free, total = (field.strip() for field in line.split(","))
        major, _, minor = capability.partition(".")
        gpus.append(Gpu(int(index), name, (int(major), int(minor)), driver, int(free), int(total)))
    return gpus


def judge(gpu: Gpu) -> list[Finding]:
    """Findings on one GPU: compute capability, driver, free memory."""
    check = f"GPU {gpu.index}"
    capability = f"{gpu.capability[0]}.{gpu.capability[1]}"
    if gpu.capability < LOWEST_CAPABILITY:
        first = Finding(
            "fail",
            check,
            f"{gpu.name}, compute capability {capability}: the GPU profiles need >= 8.0 (Ampere) for bf16",
            "use an A100, L4, H100 or newer; the CPU profile works all the same",
        )
    else:
        first = Finding("ok", check, f"{gpu.name}, compute capability {capability}")
    return [first, _judge_driver(check, gpu), _judge_memory(check, gpu)]


def _judge_driver(check: str, gpu: Gpu) -> Finding:
    if int(gpu.driver.partition(".")[0]) >= OLDEST_DRIVER:
        return Finding("ok", check, f"driver {gpu.driver}")
    return Finding(
        "fail",
        check,
        f"driver {gpu.driver}: >= {OLDEST_DRIVER} is needed",
        "update the NVIDIA driver",
    )


def _judge_memory(check: str, gpu: Gpu) -> Finding:
    message = f"{gpu.free} MiB free of {gpu.total} MiB"
    if gpu.free >= LEAST_FREE_MIB:
        return Finding("ok", check, message)
    return Finding(
        "warn", check, f"{message}: a 7B model in bf16 takes {LEAST_FREE_MIB} MiB", "end other programs: nvidia-smi"
    )
