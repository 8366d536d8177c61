"""The three ports of an instance, and who holds one that is busy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DEFAULT_BASE: Final = 8000
# Offset from the port base to what listens there.
PORTS: Final = {0: "HTTP", 1: "gRPC", 2: "metrics"}
LOWEST_BASE: Final = 1
HIGHEST_BASE: Final = 65535 - max(PORTS)

LISTENING = "0A"


def holder_of(port: int, proc: Path = Path("/proc")) -> str:
    """The process listening on a TCP port, as 'tritonserver (process 4711)'; its number needs no privileges to find
    unless it is another user's, and then only that is said."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return "a connection that is closing"
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in proc.iterdir():
        if folder.name.isdigit() and _holds(folder, wanted):
            return f"{_name(folder)} (process {folder.name})"
    return "another user's process"


def _listening_inodes(port: int, proc: Path) -> set[str]:
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            fields = re.split(r"\s+", line.strip())
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _holds(folder: Path, sockets: set[str]) -> bool:
    try:
        return any(str(link.readlink()) in sockets for link in (folder / "fd").iterdir())
    except OSError:
        return False


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "a process that has just ended"
