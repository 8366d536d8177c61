"""Cells of the report's tables, and the words around them."""

from __future__ import annotations

from typing import Final

from tools.benchmark.spread import Spread
from tools.reporting.blocks import Cell

ABSENT: Final = Cell("–", "absent")


def spread_cell(spread: Spread, scale: float = 1.0) -> Cell:
    """The median, with the lowest and the highest of several."""
    median, low, high = (rounded(value * scale) for value in (spread.median, spread.low, spread.high))
    return Cell(median, note=f"{low}-{high}" if len(spread.values) > 1 else "")


def rounded(value: float) -> str:
    """Three significant digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def streams(level: int) -> str:
    return "1 stream" if level == 1 else f"{level} streams"
