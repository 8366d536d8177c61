"""The result of a load test as data: what `--out` writes as results.json, and what the ladder report reads.

Only whole answers have latencies; failures are counted by kind. Milliseconds, tokens and tokens per second.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from loadtest.options import LoadOptions, SlaLimits


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quantiles(_Result):
    """A distribution out of its full histogram, in milliseconds; all None when `count` is 0."""

    count: int
    mean: float | None = None
    stddev: float | None = None
    min: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None


class SlaMiss(_Result):
    """A promise that was not kept. `what` is the field of the limits, `unit` belongs to both figures."""

    what: str
    limit: float
    measured: float | None
    unit: str

    def text(self) -> str:
        """One line: which figure, and by how much."""
        if self.measured is None:
            return f"{self.what}: nothing was measured, the limit is {self.limit:g} {self.unit}"
        by = abs(self.measured - self.limit)
        missed_by = f"{by / self.limit * 100:.3g} %" if self.limit else f"{by:.3g} {self.unit}"
        return (
            f"{self.what}: {self.measured:.4g} {self.unit}, the limit is {self.limit:g} {self.unit} "
            f"(missed by {missed_by})"
        )


class TargetResult(_Result):
    """One target's share of the run, warm-up left out.

    Attributes:
        served_by: requests by the model and version that answered.
        protocol: generate_stream, generate, grpc or openai.
        seconds: from the end of the warm-up to the end of the target's last request, or to the end of the run when
            requests of it were still running then; the rates are over these seconds.
        requests: whole answers and failures together.
        failures: by kind; messages: how often each text came, most frequent first (at most 20).
        cut: requests still running when the run ended: neither answers nor failures, and in no latency.
        cut_output_tokens: what they had received by then, by the server's count: a part of `output_tokens`.
        cut_uncounted: how many of them the server had not counted the tokens of: those are in no figure.
        good: whole answers inside the SLA's ttft_ms, tpot_ms and p99_e2e_s; None without SLA.
        output_tokens: of whole answers, of failures and of what was cut, by the server's count.
        ttft_ms, e2e_ms: from when the request was due.
        lag_ms: how late requests were sent, failed ones too.
        histograms: base64 of the HdrHistograms by name (ttft, tpot, itl, e2e, lag), in microseconds.
    """

    target: str
    served_by: dict[str, int]
    protocol: str
    seconds: float
    requests: int
    failures: dict[str, int]
    messages: dict[str, int]
    cut: int
    cut_output_tokens: int = 0
    cut_uncounted: int = 0
    good: int | None
    input_tokens: int
    output_tokens: int
    responses: int
    finish_reasons: dict[str, int]
    requests_per_s: float
    output_tokens_per_s: float
    goodput_per_s: float | None
    ttft_ms: Quantiles
    tpot_ms: Quantiles
    itl_ms: Quantiles
    e2e_ms: Quantiles
    lag_ms: Quantiles
    histograms: dict[str, str]
    missed: tuple[SlaMiss, ...] = ()


class ClientHealth(_Result):
    """Whether the figures are the server's or the client's.

    Attributes:
        workers: processes that sent requests.
        cpu_percent: of the busiest of them in its busiest 5 s; 100 is one core, all that such a process can use.
        loop_lag_p99_ms: how late what one of them waited for was looked at, in the worst of them.
        saturated: reasons, empty when the client kept up.
    """

    workers: int
    cpu_percent: float | None
    loop_lag_p99_ms: float | None = None
    saturated: tuple[str, ...] = ()


class SearchStep(_Result):
    """A rate that the search tried, in arrivals a second; `reasons` say why it was not inside the SLA."""

    rate: float
    inside: bool
    reasons: tuple[str, ...]


class SearchResult(_Result):
    """What shape `search` found, in arrivals a second. None: even the lowest was outside, or the highest inside."""

    highest_rate_inside: float | None
    lowest_rate_outside: float | None
    steps: tuple[SearchStep, ...]


class RunResult(_Result):
    """A whole run.

    Attributes:
        seconds: from the start to the end, warm-up and all.
        warmup_requests: how many requests were left out.
        parts: what each model answered of a release router's requests, sorted; `target` is "router > model:version",
            the rates are over the router's seconds, and no SLA is judged. Requests that no model took are in none.
        partial: why it is not what was asked for (interrupted, worker lost); empty when it is.
        records_left_out: how many requests were too many for records.jsonl; the figures have them all.
        search: of shape `search` alone; the targets' figures are those at the highest rate inside the SLA.
    """

    format: Literal[1] = 1
    options: LoadOptions
    sla: SlaLimits | None
    started_at: datetime
    seconds: float
    warmup_requests: int
    targets: tuple[TargetResult, ...]
    parts: tuple[TargetResult, ...] = ()
    client: ClientHealth
    partial: tuple[str, ...] = ()
    records_left_out: int = 0
    search: SearchResult | None = None

    @property
    def rows(self) -> tuple[TargetResult, ...]:
        """All that has figures: the targets as they were asked, then the parts."""
        return self.targets + self.parts

    @property
    def order(self) -> tuple[str, ...]:
        """The names of `rows`; their places choose the colours."""
        return self.options.targets + tuple(part.target for part in self.parts)
