"""The router's metrics: names, kinds, help texts and buckets. Labels are route, and model and version of the target."""

from __future__ import annotations

from typing import Final

from .metric_names import FINISH_REASONS, SECONDS, TOKENS, Kind, Metric

# Why an attempt at a target failed. The first four say something about the target, the rest about the request.
ERROR_REASONS: Final = (
    "engine_died", "queue_full", "unloading", "internal", "not_ready", "by_load", "deadline", "invalid", "cancelled",
)  # fmt: skip
# Why a request went on to its next target.
FALLBACK_REASONS: Final = ("not_ready", "by_load", "engine_died", "queue_full", "unloading")

# 1 ms to 100 s, 16 bounds to a factor of 10, each 1.15 times the one before: a release is judged by quantiles, and a
# quantile is only known to lie somewhere in its bucket.
LATENCY: Final = tuple(round(0.001 * 10 ** (step / 16), 6) for step in range(81))

REQUESTS: Final = "ladder_release_requests_total"
IN_FLIGHT: Final = "ladder_release_in_flight"
WEIGHT: Final = "ladder_release_weight"
USERS: Final = "ladder_release_users"
TTFT: Final = "ladder_release_ttft_seconds"
ITL: Final = "ladder_release_itl_seconds"
E2E: Final = "ladder_release_e2e_seconds"
OUTPUT_TOKENS: Final = "ladder_release_output_tokens"
FINISHED: Final = "ladder_release_finished_total"
ERRORS: Final = "ladder_release_errors_total"
FALLBACKS: Final = "ladder_release_fallbacks_total"
SHADOWS: Final = "ladder_release_shadow_requests_total"
SHADOW_FAILURES: Final = "ladder_release_shadow_failures_total"
SHADOW_COMPARED: Final = "ladder_release_shadow_compared_total"
SHADOW_DIFFERENCES: Final = "ladder_release_shadow_differences_total"
# Not of a target: its labels are model and version of the router.
FILE_BROKEN: Final = "ladder_release_file_broken"

TARGET_METRICS: Final = (
    Metric(REQUESTS, Kind.COUNTER, "Requests sent to the target; one that falls back counts at each of its targets."),
    Metric(IN_FLIGHT, Kind.GAUGE, "Requests that the target is answering."),
    Metric(WEIGHT, Kind.GAUGE, "Share of the route's requests that the target is to get; 1 means all of them."),
    Metric(USERS, Kind.GAUGE, "Different values of the sticky key that the target was sent in the last 5 minutes."),
    Metric(TTFT, Kind.HISTOGRAM, "Streamed requests: from the target getting it to its first token (TTFT).", LATENCY),
    Metric(ITL, Kind.STEP_HISTOGRAM, "Streamed requests: time between output steps (ITL).", LATENCY),
    Metric(E2E, Kind.HISTOGRAM, "From the target getting the request to its last token.", SECONDS),
    Metric(OUTPUT_TOKENS, Kind.HISTOGRAM, "Tokens of an answer, all its sequences together.", TOKENS),
    Metric(
        FINISHED, Kind.COUNTER, "Finished sequences by finish reason.",
        label="finished_reason", values=FINISH_REASONS,
    ),
    Metric(
        ERRORS, Kind.COUNTER, "Requests that the target did not answer to the end, by reason.",
        label="reason", values=ERROR_REASONS,
    ),
    Metric(
        FALLBACKS, Kind.COUNTER, "Requests that left the target for the next one before their first token, by reason.",
        label="reason", values=FALLBACK_REASONS,
    ),
    Metric(SHADOWS, Kind.COUNTER, "Copies sent to the target."),
    Metric(SHADOW_FAILURES, Kind.COUNTER, "Copies that the target did not answer to the end."),
    Metric(SHADOW_COMPARED, Kind.COUNTER, "Copies at temperature 0 whose answer was compared with the real one."),
    Metric(SHADOW_DIFFERENCES, Kind.COUNTER, "Compared copies whose answer was another."),
)  # fmt: skip

ROUTER_METRICS: Final = (
    Metric(FILE_BROKEN, Kind.GAUGE, "1 while the release file is broken and an older release is in force, else 0."),
)
