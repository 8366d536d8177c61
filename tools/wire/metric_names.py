"""The metrics of a served model: names, kinds, help texts and buckets, shared by engine and stub.

Names and meanings are vLLM's where vLLM has the metric (`vllm:` prefix); the ladder's own are `ladder_`, free of colons
because some metrics adapters for Kubernetes refuse or rewrite them. Every series has the labels model and version.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """How a metric is kept on the stub's side.

    HISTOGRAM observes one value per request. STEP_HISTOGRAM has one observation per output step, too many for one call
    each: the engine counts into buckets, and the stub adds the counts to plain counters with the label `le`.
    """

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    STEP_HISTOGRAM = "step histogram"


class Metric(NamedTuple):
    """One metric family. `label` is the one label besides model and version, if any, with its values in `values`."""

    name: str
    kind: Kind
    help: str
    buckets: tuple[float, ...] = ()
    label: str = ""
    values: tuple[str, ...] = ()


# 1 ms to 10 min: a small model answers in milliseconds, a full queue can hold a request for minutes.
SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
TOKENS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5)
SEQUENCES: Final = (1.0, 2.0, 5.0, 10.0, 20.0)

FINISH_REASONS: Final = ("stop", "length", "abort", "error")
REJECTIONS: Final = ("queue_full", "invalid", "engine_down")

_METRICS = (
    Metric("vllm:num_requests_running", Kind.GAUGE, "Requests in the running batch."),
    Metric("vllm:num_requests_waiting", Kind.GAUGE, "Requests that wait for a place in the running batch."),
    Metric("vllm:kv_cache_usage_perc", Kind.GAUGE, "KV cache in use; 1 means all of it."),
    Metric("vllm:prompt_tokens_total", Kind.COUNTER, "Prompt tokens of finished prefills."),
    Metric("vllm:generation_tokens_total", Kind.COUNTER, "Generated tokens."),
    Metric("vllm:num_preemptions_total", Kind.COUNTER, "Preemptions by the engine's scheduler."),
    Metric("vllm:prefix_cache_queries_total", Kind.COUNTER, "Prompt tokens looked up in the prefix cache."),
    Metric("vllm:prefix_cache_hits_total", Kind.COUNTER, "Prompt tokens found in the prefix cache."),
    Metric(
        "vllm:request_success_total", Kind.COUNTER, "Finished requests by finish reason.",
        label="finished_reason", values=FINISH_REASONS,
    ),
    Metric("vllm:spec_decode_num_drafts_total", Kind.COUNTER, "Speculative decoding: drafts."),
    Metric("vllm:spec_decode_num_draft_tokens_total", Kind.COUNTER, "Speculative decoding: tokens in drafts."),
    Metric("vllm:spec_decode_num_accepted_tokens_total", Kind.COUNTER, "Speculative decoding: accepted tokens."),
    Metric(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total", Kind.COUNTER,
        "Speculative decoding: accepted tokens by position in the draft.", label="position",
    ),
    Metric("vllm:time_to_first_token_seconds", Kind.HISTOGRAM, "Arrival to first token (TTFT).", SECONDS),
    Metric("vllm:inter_token_latency_seconds", Kind.STEP_HISTOGRAM, "Time between output steps (ITL).", SECONDS),
    Metric(
        "vllm:time_per_output_token_seconds", Kind.STEP_HISTOGRAM,
        "The same as vllm:inter_token_latency_seconds, under the name that NVIDIA's vLLM backend exports.", SECONDS,
    ),
    Metric(
        "vllm:request_time_per_output_token_seconds", Kind.HISTOGRAM,
        "Per request: (end to end - TTFT) / (output tokens - 1) (TPOT).", SECONDS,
    ),
    Metric("vllm:e2e_request_latency_seconds", Kind.HISTOGRAM, "Arrival to last token.", SECONDS),
    Metric("vllm:request_queue_time_seconds", Kind.HISTOGRAM, "Arrival to first place in the running batch.", SECONDS),
    Metric("vllm:request_prompt_tokens", Kind.HISTOGRAM, "Prompt tokens per request.", TOKENS),
    Metric("vllm:request_generation_tokens", Kind.HISTOGRAM, "Generated tokens per request.", TOKENS),
    Metric("vllm:request_params_n", Kind.HISTOGRAM, "Parameter n per request.", SEQUENCES),
    Metric("ladder_requests_running", Kind.GAUGE, "As vllm:num_requests_running, with a name every adapter takes."),
    Metric("ladder_requests_waiting", Kind.GAUGE, "As vllm:num_requests_waiting, with a name every adapter takes."),
    Metric("ladder_peak_memory_bytes", Kind.GAUGE, "Peak memory of the engine: GPU memory, or RSS without a GPU."),
    Metric("ladder_engine_up", Kind.GAUGE, "1 while the engine process is ready, else 0."),
    Metric("ladder_engine_restarts_total", Kind.COUNTER, "Times the engine process was started again."),
    Metric(
        "ladder_requests_rejected_total", Kind.COUNTER, "Requests refused before the engine saw them, by reason.",
        label="reason", values=REJECTIONS,
    ),
    Metric("ladder_requests_cancelled_total", Kind.COUNTER, "Requests cancelled by client or unload."),
    Metric("ladder_requests_deadline_exceeded_total", Kind.COUNTER, "Requests stopped at their deadline."),
    Metric("ladder_requests_failed_total", Kind.COUNTER, "Requests that failed in the engine."),
)  # fmt: skip

METRICS: Final = {metric.name: metric for metric in _METRICS}
