"""A figure that was measured several times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict


class Spread(BaseModel):
    """The median of repeats with the extremes, and every value in the order it was measured."""

    model_config = ConfigDict(frozen=True)

    median: float
    low: float
    high: float
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Raises ValueError when there are no values."""
        if not values:
            raise ValueError("no values: a figure needs at least one repeat")
        return cls(median=statistics.median(values), low=min(values), high=max(values), values=tuple(values))

    def text(self, digits: int = 0) -> str:
        """`median (lowest-highest)`, without the extremes where there was one repeat only."""
        median = f"{self.median:,.{digits}f}"
        return median if len(self.values) == 1 else f"{median} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"
