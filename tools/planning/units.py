"""Binary units: GPUs are sold and reported in them."""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20
GIB: Final = 1 << 30


def gib(size: int) -> str:
    """As "12.6 GiB"."""
    return f"{size / GIB:.1f} GiB"
