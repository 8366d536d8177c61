"""How long the rest of a walk will take, from how long its cells have taken so far."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from tools.reporting.cells import PlannedCell


class Pace:
    """Seconds of finished cells."""

    def __init__(self) -> None:
        self._of_cell: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._of_level: dict[int, list[float]] = defaultdict(list)

    def took(self, cell: PlannedCell, seconds: float) -> None:
        self._of_cell[cell.rung, cell.level].append(seconds)
        self._of_level[cell.level].append(seconds)

    def left_s(self, cells: Iterable[PlannedCell]) -> float | None:
        """Seconds that the cells will take; None while no cell of some level has been seen."""
        total = 0.0
        for cell in cells:
            # A rung's own pace says most; before it has been seen, that of the others at the same level.
            seen = self._of_cell.get((cell.rung, cell.level)) or self._of_level.get(cell.level)
            if not seen:
                return None
            total += statistics.median(seen)
        return total
