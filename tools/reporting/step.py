"""One step of the ladder with everything that its reasons are found in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.reporting.figures import Figure, LevelFigures
from tools.reporting.gains import Gain
from tools.reporting.rungs import ModelSizes, RungFacts

Levels = Mapping[int, LevelFigures]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A rung to hold another one against: its facts, its figures, and the other's gains over it."""

    facts: RungFacts
    levels: Levels
    gains: Sequence[Gain]

    def gain(self, figure: Figure, level: int) -> Gain | None:
        """The gain in one figure at one level; None where either rung was not measured."""
        found = (gain for gain in self.gains if (gain.figure, gain.level) == (figure, level))
        return next(found, None)

    def without_gain(self, figure: Figure = "tokens_per_s") -> list[int]:
        """Levels at which the figure is no better than before."""
        return [gain.level for gain in self.gains if gain.figure == figure and gain.direction != "gain"]


@dataclass(frozen=True, slots=True)
class Step:
    """A rung, and the one below it (None for the lowest).

    Attributes:
        context: tokens of prompt and answer.
        alike: for a rung that drafts, the same weights without drafts, where that is not the rung below.
    """

    accelerator: Literal["cpu", "cuda"]
    sizes: ModelSizes | None
    context: int
    facts: RungFacts
    levels: Levels
    below: Comparison | None
    alike: Comparison | None = None

    @property
    def undrafted(self) -> Comparison | None:
        """What drafting alone is judged against: the same engine and weights without drafts."""
        if not self.facts.draft_tokens:
            return None
        if self.alike is not None:
            return self.alike
        if self.below is not None and self.below.facts.weights == self.facts.weights:
            return self.below
        return None
