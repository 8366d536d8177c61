"""How good a served rung has to be for `./ladder eval` to say that it is inside its thresholds."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import PositiveFloat, SpecModel

Loss = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Quality(SpecModel):
    """What a rung may lose against the reference rung, and what it must reach by itself; what is left out has no limit.

    Against the reference: `perplexity_increase_percent` of its perplexity; `mmlu_loss_points`, percentage points of
    accuracy on the set that `--mmlu` names (the shipped set is too small for a difference to mean anything).

    By itself, on what the project ships: `perplexity_max`, `choice_accuracy_min_percent`, `format_min_percent` (share
    of cases passed), `agreement_min_percent` (equal tokens before the first difference to the reference).
    """

    perplexity_increase_percent: Loss | None = None
    mmlu_loss_points: Loss | None = None
    perplexity_max: PositiveFloat | None = None
    choice_accuracy_min_percent: Percent | None = None
    format_min_percent: Percent | None = None
    agreement_min_percent: Percent | None = None
