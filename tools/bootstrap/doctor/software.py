"""Checks of Python, of both environments against their lock files, and of the ports."""

from __future__ import annotations

import importlib.util
import re
import socket
from pathlib import Path

from tools.bootstrap import interpreters
from tools.bootstrap.doctor.findings import Finding
from tools.bootstrap.environments import Environment, is_ready, is_usable, lock_file
from tools.bootstrap.errors import BootstrapError
from tools.bootstrap.layout import Layout
from tools.bootstrap.pip import PIN, normalised
from tools.bootstrap.ports import PORTS, holder_of

DISTRIBUTION = re.compile(r"^(?P<name>.+?)-(?P<version>[^-]+)\.dist-info$")


def python_is_complete() -> list[Finding]:
    findings = []
    engine = interpreters.for_engine()
    version = ".".join(map(str, engine.version))
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        findings.append(Finding("ok", "Python", f"{version} ({engine.executable})"))
    else:
        fix = "apt install python3-venv, or set LADDER_PYTHON to a complete Python"
        findings.append(Finding("fail", "Python", f"{version} ({engine.executable}) lacks venv or ensurepip", fix))
    try:
        server = interpreters.for_server()
    except BootstrapError as error:
        problem, *_, fix = str(error).splitlines()
        findings.append(Finding("fail", "libpython", problem, fix))
    else:
        where = server.libpython or "brought by Triton's stub"
        findings.append(Finding("ok", "libpython", f"for Python {server.minor}: {where}"))
    return findings


def environment_matches_lock(environment: Environment, layout: Layout) -> Finding:
    check = f"{environment.name} env"
    if not is_usable(environment, layout):
        return Finding("warn", check, "not prepared yet", "./ladder setup does it, as does the first ./ladder up")
    if not is_ready(environment, layout):
        return Finding("warn", check, "built from an older lock file", "./ladder setup brings it up to date")
    wrong = differences(lock_file(environment, layout), site_packages(environment, layout))
    if wrong:
        fix = f'rm -r "{layout.environment(environment.name)}" && ./ladder setup'
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        return Finding("fail", check, f"differs from its lock file: {'; '.join(wrong[:3])}{more}", fix)
    return Finding("ok", check, f"as {lock_file(environment, layout).name} says")


def site_packages(environment: Environment, layout: Layout) -> Path:
    return next((layout.environment(environment.name) / "lib").glob("python3.*")) / "site-packages"


def differences(lock: Path, packages: Path) -> list[str]:
    """What of a lock file is missing from a site-packages folder, or there in another version."""
    found = [DISTRIBUTION.match(entry.name) for entry in packages.iterdir()]
    installed = {normalised(match["name"]): match["version"] for match in found if match}
    wrong = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        pin = PIN.match(line)
        if pin is None:
            continue
        there = installed.get(normalised(pin[1]))
        if there is None and ";" not in line:
            wrong.append(f"{pin[1]} {pin[2]} is missing")
        # A local version (2.13.0+cpu) is a build of the version that is pinned.
        elif there is not None and there.partition("+")[0] != pin[2]:
            wrong.append(f"{pin[1]} is {there}, not {pin[2]}")
    return wrong


def ports_are_free(port_base: int) -> list[Finding]:
    findings = []
    for offset, use in PORTS.items():
        port = port_base + offset
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                fix = "end it, ./ladder down if it is ours, or choose others with --port-base"
                findings.append(Finding("warn", f"port {port}", f"{use}: held by {holder_of(port)}", fix))
            else:
                findings.append(Finding("ok", f"port {port}", f"{use}: free"))
    return findings
