"""Checks of the operating system: platform, C library, CPU, memory, shared memory, disk, writable folders."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from pathlib import Path

from tools.bootstrap.doctor.findings import Finding
from tools.bootstrap.environments import ENVIRONMENTS, is_ready
from tools.bootstrap.layout import Layout
from tools.bootstrap.paths import unserved_character

OLDEST_GLIBC = (2, 35)
# All rungs of cpu-smollm2 at once, and what one rung needs at least, in GB of available memory.
COMFORTABLE_MEMORY = 12.0
LEAST_MEMORY = 4.0
COMFORTABLE_SHARED_MEMORY_MB = 256
LEAST_SHARED_MEMORY_MB = 32
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the kernel's name for it
MODEL_GB = 0.5
# A socket's path may hold 107 bytes; the folder and the engine's file name take up to 80 of them.
LONGEST_TEMPORARY_FOLDER = 40


def platform_is_served() -> Finding:
    machine = platform.machine()
    name = f"{platform.system()} {machine}"
    if platform.system() == "Linux" and machine in ("x86_64", "aarch64"):
        return Finding("ok", "platform", name)
    return Finding(
        "fail",
        "platform",
        f"{name}: tritonserver's wheel is for Linux",
        "use Linux on x86_64 or aarch64",
    )


def glibc_is_new_enough() -> Finding:
    wanted = ".".join(map(str, OLDEST_GLIBC))
    text = platform.libc_ver()[1]
    match = re.match(r"(\d+)\.(\d+)", text)
    if platform.libc_ver()[0] != "glibc" or match is None:
        return Finding(
            "fail", "glibc", "this system's C library is not glibc", f"use a distribution with glibc >= {wanted}"
        )
    if (int(match[1]), int(match[2])) >= OLDEST_GLIBC:
        return Finding("ok", "glibc", text)
    return Finding(
        "fail",
        "glibc",
        f"{text}, tritonserver needs >= {wanted}",
        "use Debian 12, Ubuntu 22.04, RHEL 10 or newer, or a container of one",
    )


def cpu_has_what_vllm_needs(cpuinfo: str) -> Finding:
    """`cpuinfo` is the text of /proc/cpuinfo."""
    flags = _cpu_flags(cpuinfo)
    cores = len(os.sched_getaffinity(0))
    if platform.machine() == "aarch64":
        return Finding("ok", "CPU", f"{cores} cores, " + ("bf16" if "bf16" in flags else "no bf16 instructions"))
    if "avx2" not in flags:
        return Finding(
            "fail", "CPU", f"{cores} cores without AVX2: vLLM's CPU kernels need it", "use a machine with AVX2 or newer"
        )
    present = [
        label
        for label, flag in (
            ("AVX2", "avx2"),
            ("AVX-512", "avx512f"),
            ("AVX-512 BF16", "avx512_bf16"),
            ("AMX BF16", "amx_bf16"),
        )
        if flag in flags
    ]
    message = f"{cores} cores, {', '.join(present)}"
    if cores < 2:
        return Finding("warn", "CPU", f"{message}: loading every rung takes minutes", "./ladder up --models llm_bf16")
    return Finding("ok", "CPU", message)


def memory_is_enough(meminfo: str) -> Finding:
    """`meminfo` is the text of /proc/meminfo."""
    total, available = (_kilobytes(meminfo, key) / 1e6 for key in ("MemTotal", "MemAvailable"))
    message = f"{available:.1f} GB available of {total:.1f} GB"
    if available >= COMFORTABLE_MEMORY:
        return Finding("ok", "memory", message)
    if available >= LEAST_MEMORY:
        return Finding(
            "warn",
            "memory",
            f"{message}: all rungs at once take about {COMFORTABLE_MEMORY:.0f} GB",
            "serve fewer rungs: ./ladder up --models llm_bf16,chat_bf16",
        )
    return Finding(
        "fail", "memory", f"{message}: one rung takes about {LEAST_MEMORY:.0f} GB", "end other programs, or add memory"
    )


def shared_memory_is_enough(folder: Path = SHARED_MEMORY) -> Finding:
    try:
        free = shutil.disk_usage(folder).free / 1e6
    except OSError as error:
        return Finding("fail", "shared memory", f'"{folder}": {error.strerror}', f"mount a tmpfs at {folder}")
    message = f"{free:.0f} MB free in {folder}"
    enlarge = "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm"
    if free < LEAST_SHARED_MEMORY_MB:
        return Finding("fail", "shared memory", f"{message}: every model instance takes some of it", enlarge)
    if not os.access(folder, os.W_OK):
        return Finding("fail", "shared memory", f"{folder} is not writable", f"chmod 1777 {folder}")
    if free < COMFORTABLE_SHARED_MEMORY_MB:
        return Finding("warn", "shared memory", f"{message}: little for many concurrent requests", enlarge)
    return Finding("ok", "shared memory", message)


def disk_is_enough(layout: Layout) -> Finding:
    missing = [environment for environment in ENVIRONMENTS if not is_ready(environment, layout)]
    needed = MODEL_GB + sum(environment.gigabytes for environment in missing)
    free = shutil.disk_usage(layout.home).free / 1e9
    message = f"{free:.1f} GB free in {layout.home}, {needed:.1f} GB needed"
    if free < needed:
        return Finding("fail", "disk", message, "free some space, or clone to a larger disk")
    # pip unpacks from its cache, which holds the wheels once more.
    if missing and free < 2 * needed:
        return Finding("warn", "disk", f"{message}, and as much again for pip's cache", "free some space")
    return Finding("ok", "disk", message)


def folders_are_writable(layout: Layout) -> list[Finding]:
    findings = []
    for folder, content in ((layout.private, "environments, run state"), (layout.models, "model artifacts")):
        holder = next(path for path in (folder, *folder.parents) if path.exists())
        if os.access(holder, os.W_OK | os.X_OK):
            findings.append(Finding("ok", f"{folder.name}/", f"{content}: writable"))
        else:
            fix = f'give yourself write access to "{holder}", or clone elsewhere'
            findings.append(Finding("fail", f"{folder.name}/", f'{content}: "{holder}" is not writable', fix))
    return [*findings, _sockets_fit(Path(tempfile.gettempdir()))]


def path_is_served(layout: Layout) -> Finding:
    character = unserved_character(layout.home)
    if not character:
        return Finding("ok", "path", f"{layout.home}: no character that Triton's Python backend cannot take")
    return Finding(
        "fail",
        "path",
        f'"{layout.home}" has a {character!r} in it, which Triton\'s Python backend cannot take',
        "move this checkout to a path of ASCII letters, digits and _ - . /",
    )


def _sockets_fit(folder: Path) -> Finding:
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("fail", "temp folder", f'"{folder}" is not writable', "set TMPDIR to a folder that is")
    if len(os.fsencode(folder)) > LONGEST_TEMPORARY_FOLDER:
        return Finding(
            "fail", "temp folder", f'"{folder}" is too long a path for Unix sockets in it', "set TMPDIR=/tmp"
        )
    return Finding("ok", "temp folder", f"{folder}: writable, short enough for Unix sockets")


def _cpu_flags(cpuinfo: str) -> set[str]:
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return set(match[1].split()) if match else set()


def _kilobytes(meminfo: str, key: str) -> float:
    match = re.search(rf"^{key}:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return float(match[1]) if match else 0.0
