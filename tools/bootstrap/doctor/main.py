"""The doctor's command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bootstrap.doctor import gpu, software, system
from tools.bootstrap.doctor.findings import Finding, as_json, as_text, exit_code
from tools.bootstrap.environments import ENVIRONMENTS
from tools.bootstrap.layout import Layout
from tools.bootstrap.ports import DEFAULT_BASE, HIGHEST_BASE, LOWEST_BASE


def main(arguments: Sequence[str], layout: Layout) -> int:
    """Prints the report. Returns 0, 1 when a check failed, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="./ladder doctor", description="Check this machine; needs no environment.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--port-base", type=_port_base, default=DEFAULT_BASE, help="first of the three ports (default: 8000)"
    )
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    findings = examine(layout, options.port_base)
    print(as_json(findings) if options.json else as_text(findings, colour=sys.stdout.isatty()))
    return exit_code(findings)


def _port_base(text: str) -> int:
    if not text.isdecimal() or not LOWEST_BASE <= int(text) <= HIGHEST_BASE:
        raise argparse.ArgumentTypeError(f'"{text}" is no port base: choose one from {LOWEST_BASE} to {HIGHEST_BASE}')
    return int(text)


def examine(layout: Layout, port_base: int) -> list[Finding]:
    return [
        system.platform_is_served(),
        system.glibc_is_new_enough(),
        *software.python_is_complete(),
        system.cpu_has_what_vllm_needs(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        *gpu.gpus_are_fit(),
        system.memory_is_enough(Path("/proc/meminfo").read_text(encoding="utf-8")),
        system.shared_memory_is_enough(),
        system.disk_is_enough(layout),
        system.path_is_served(layout),
        *system.folders_are_writable(layout),
        *software.ports_are_free(port_base),
        *(software.environment_matches_lock(environment, layout) for environment in ENVIRONMENTS),
    ]
