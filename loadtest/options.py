"""What a run is asked to do, validated once; the fields are the command line's options and the web form's."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from tools.client.request import Target
from tools.spec.base import failure

MOST_TOKENS: Final = 1_000_000
"""Of one prompt or answer; a mistyped length would otherwise be made up, for hours, before it is compared."""


def _is_json(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        json.dumps(values, allow_nan=False)
    except ValueError:
        raise failure("a sampling parameter is not finite, which JSON cannot say: leave it out") from None
    return values


Sampling = Annotated[dict[str, JsonValue], AfterValidator(_is_json)]
"""Sampling parameters, as they are sent."""

Tokens = Annotated[int, Field(ge=1, le=MOST_TOKENS)]
# Beyond these a clock or a generator of random numbers gives up, or a run never ends.
_Rate = Annotated[float, Field(ge=1e-6, le=100_000)]
MOST_SECONDS: Final = 1_000_000
MOST_USERS: Final = 100_000


class Protocol(StrEnum):
    """How a target is asked."""

    GENERATE_STREAM = "generate_stream"
    GENERATE = "generate"
    GRPC = "grpc"
    OPENAI = "openai"


class Shape(StrEnum):
    """How the load changes: `users` in a closed loop; `rate`, `ramp`, `spike` and `search` are arrivals a second."""

    USERS = "users"
    RATE = "rate"
    RAMP = "ramp"
    SPIKE = "spike"
    SEARCH = "search"


class SlaLimits(BaseModel):
    """Limits of a run; None is not judged. TTFT and TPOT are judged at their p95, end to end at its p99.

    The same three bound a single request for it to count as good.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    ttft_ms: Annotated[float, Field(gt=0)] | None = None
    tpot_ms: Annotated[float, Field(gt=0)] | None = None
    p99_e2e_s: Annotated[float, Field(gt=0)] | None = None
    min_qps: Annotated[float, Field(gt=0)] | None = None
    max_failures_percent: Annotated[float, Field(ge=0, le=100)] = 0.0


class LoadOptions(BaseModel):
    """One run.

    Attributes:
        host: `scheme://host:port` of tritonserver's HTTP or gRPC port, or of an OpenAI server.
        targets: "MODEL" or "MODEL:VERSION"; users and arrivals are shared out among them evenly.
        workload: name of a shipped workload, or path of a YAML or JSONL file.
        input_tokens, output_tokens: instead of the workload's own; None leaves them.
        tokenizer: path of the model's tokenizer.json, or of its folder: prompts then have exactly the lengths drawn.
        sampling: over the workload's sampling parameters.
        users: in a closed loop; rate: arrivals a second at the start; peak_rate: of ramp, spike and search.
        duration_s: after the warm-up; None goes on until `requests` or until it is stopped.
        requests: how many requests to send in all, after which the run ends; None for no limit.
        warmup_s: what is due before that is not counted; warmup_requests: nor are the first so many.
        ca_file: path of the PEM file with the authorities to verify an https or grpcs server's certificate against, on
            every machine that sends; None for those that the machine trusts.
        deadline_s: a request without a whole answer by then is a failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    host: str
    targets: Annotated[tuple[str, ...], Field(min_length=1)]
    protocol: Protocol = Protocol.GENERATE_STREAM
    workload: str = "chat"
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    tokenizer: Annotated[str, Field(min_length=1)] | None = None
    sampling: Sampling = Field(default_factory=dict)
    shape: Shape = Shape.USERS
    users: Annotated[int, Field(ge=1, le=MOST_USERS)] = 1
    rate: _Rate = 1.0
    peak_rate: _Rate | None = None
    duration_s: Annotated[float, Field(gt=0, le=MOST_SECONDS)] | None = None
    requests: Annotated[int, Field(ge=1)] | None = None
    warmup_s: Annotated[float, Field(ge=0, le=MOST_SECONDS)] = 0.0
    warmup_requests: Annotated[int, Field(ge=0)] = 0
    deadline_s: Annotated[float, Field(gt=0, le=MOST_SECONDS)] = 120.0
    seed: int = 0
    ca_file: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("targets")
    @classmethod
    def _targets_are_named_once(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        for target in targets:
            Target.parse(target)
        twice = {target for target in targets if targets.count(target) > 1}
        if twice:
            raise ValueError(f'target "{min(twice)}" is named twice: name each once')
        return targets

    @model_validator(mode="after")
    def _shape_has_its_rates(self) -> LoadOptions:
        needs_peak = self.shape in (Shape.RAMP, Shape.SPIKE, Shape.SEARCH)
        if needs_peak and self.peak_rate is None:
            raise ValueError(f'shape "{self.shape}" needs peak_rate, the highest arrivals a second')
        if self.peak_rate is not None and self.peak_rate < self.rate:
            raise ValueError(f"peak_rate {self.peak_rate:g} is under rate {self.rate:g}: it is the highest rate")
        return self
