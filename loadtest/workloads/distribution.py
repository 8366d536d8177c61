"""How long prompts, answers and pauses are."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, model_validator

from tools.spec.base import PositiveFloat, PositiveInt, SpecModel, failure

_Z90: Final = NormalDist().inv_cdf(0.9)


class LogNormal(SpecModel):
    """A log-normal distribution by its median and 90th percentile, cut off at `min` and `max`.

    What is drawn outside is moved to the bound, so the median and the 90th percentile stay what they say. The
    logarithm is normal with mean ln(median) and standard deviation ln(p90 / median) / 1.2816, where 1.2816 is the
    standard normal's 90th percentile (https://en.wikipedia.org/wiki/Log-normal_distribution#Mode,_median,_quantiles).
    """

    median: PositiveFloat
    p90: PositiveFloat
    min: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    max: PositiveFloat

    @model_validator(mode="after")
    def _ascending(self) -> LogNormal:
        if not self.min <= self.median <= self.p90 <= self.max:
            raise failure(
                f"min {self.min:g}, median {self.median:g}, p90 {self.p90:g} and max {self.max:g} must not descend"
            )
        return self

    @classmethod
    def fixed(cls, value: float) -> LogNormal:
        return cls(median=value, p90=value, min=value, max=value)

    @property
    def is_fixed(self) -> bool:
        return self.min == self.max

    def draw(self, random: Random) -> float:
        value = self.median * math.exp(random.gauss(0.0, 1.0) * math.log(self.p90 / self.median) / _Z90)
        return min(max(value, self.min), self.max)

    def draw_tokens(self, random: Random) -> int:
        """A whole number, at least 1."""
        return max(1, round(self.draw(random)))

    @property
    def most_tokens(self) -> int:
        return max(1, round(self.max))


class Between(SpecModel):
    """A whole number, each from `min` to `max` as likely as the others."""

    min: PositiveInt
    max: PositiveInt

    @model_validator(mode="after")
    def _ascending(self) -> Between:
        if self.min > self.max:
            raise failure(f"min {self.min} is over max {self.max}")
        return self

    def draw(self, random: Random) -> int:
        return random.randint(self.min, self.max)


def _fixed_length(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if not isinstance(value, int) or value < 1:
        raise failure(f"a fixed length is a whole number from 1 on, not {value}")
    return LogNormal.fixed(value)


def _fixed_number(value: Any) -> Any:
    return {"min": value, "max": value} if isinstance(value, int) and not isinstance(value, bool) else value


Length = Annotated[LogNormal, BeforeValidator(_fixed_length)]
"""Tokens: a whole number for exactly so many, or a distribution."""

Count = Annotated[Between, BeforeValidator(_fixed_number)]
"""A whole number, or a range of them."""
