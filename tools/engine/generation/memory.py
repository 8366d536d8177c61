"""The most memory this process has held."""

from __future__ import annotations

from pathlib import Path

import torch


def peak_memory_bytes() -> int:
    """Peak GPU memory of this process, or peak resident memory where it uses no GPU."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    # Not getrusage: its peak starts out with that of the process that forked this one.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError('"/proc/self/status" has no line "VmHWM"')
