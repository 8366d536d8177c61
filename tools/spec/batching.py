"""Triton's dynamic batcher, as far as a profile sets it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import PositiveInt, SpecModel, failure


class QueuePolicy(SpecModel):
    """What happens to a request that waits: `default_timeout_microseconds` 0 waits for ever, `max_queue_size` 0 is
    unbounded.
    """

    timeout_action: Literal["REJECT", "DELAY"] = "REJECT"
    default_timeout_microseconds: Annotated[int, Field(ge=0)]
    allow_timeout_override: bool = True
    max_queue_size: Annotated[int, Field(ge=0)]


class DynamicBatching(SpecModel):
    """One configuration for all versions of a model: Triton knows none per version."""

    max_batch_size: PositiveInt = 8
    preferred_batch_size: Annotated[tuple[PositiveInt, ...], Field(strict=False)] = ()
    max_queue_delay_microseconds: Annotated[int, Field(ge=0)]
    default_queue_policy: QueuePolicy

    @model_validator(mode="after")
    def _preferred_sizes_fit(self) -> DynamicBatching:
        sizes = self.preferred_batch_size
        for size in sizes:
            if size > self.max_batch_size:
                raise failure(
                    f'"preferred_batch_size" {size} is over "max_batch_size" {self.max_batch_size}: '
                    "tritonserver refuses to load such a model"
                )
        if list(sizes) != sorted(set(sizes)):
            raise failure(f'"preferred_batch_size" {list(sizes)} must ascend without repeats')
        return self
