"""What a served model refuses, and what its users are promised."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from .base import PositiveFloat, PositiveInt, SpecModel, failure


class Limits(SpecModel):
    """Bounds that the engine enforces; Triton's own queue is blind for a backend that answers later.

    `max_waiting_requests`: requests that may wait for a place in the running batch, 0 for none. `max_prompt_bytes`:
    UTF-8 bytes. `max_tokens`: largest `max_tokens` of a request. `default_deadline_ms`: from arrival to last token,
    for requests that name no timeout.
    """

    max_waiting_requests: Annotated[int, Field(ge=0)]
    max_prompt_bytes: PositiveInt
    max_tokens: PositiveInt
    default_deadline_ms: PositiveInt


class Sla(SpecModel):
    """The promise every rung is measured against. Milliseconds, seconds, requests per second and GPU."""

    ttft_ms: PositiveFloat = 500.0
    tpot_ms: PositiveFloat = 50.0
    p99_e2e_s: PositiveFloat = 4.0
    min_qps_per_gpu: PositiveFloat = 20.0


class GoldenInterval(SpecModel):
    """Concurrency at which speculative decoding pays: most up to `best_up_to`, nothing at `break_even_at`, and it
    costs from `worse_from` on. In requests running at once.
    """

    best_up_to: PositiveInt
    break_even_at: PositiveInt
    worse_from: PositiveInt

    @model_validator(mode="after")
    def _ascending(self) -> GoldenInterval:
        if not self.best_up_to < self.break_even_at < self.worse_from:
            raise failure(
                f'"best_up_to" ({self.best_up_to}), "break_even_at" ({self.break_even_at}) and '
                f'"worse_from" ({self.worse_from}) must ascend'
            )
        return self
