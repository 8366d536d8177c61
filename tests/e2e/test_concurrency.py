"""Many requests at once, and whether the metrics endpoint counts what the clients counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.asking import Outputs, Triton, Way, text_of, tokens_of
from tests.e2e.deployment import Deployment
from tests.e2e.metrics import Scrape, Watch, at_rest, is_idle, settled
from tests.e2e.rungs import LLM, sampling
from tools.wire.metric_names import METRICS, Kind

EOS = {"2": 100}
WAYS = (Way.GRPC, Way.SSE, Way.GENERATE)


@dataclass(frozen=True)
class Asked:
    """One request of the mix, and how it has to end."""

    way: Way
    prompt: str
    n: int
    tokens: int
    reason: str

    @property
    def inputs(self) -> dict[str, Any]:
        ends = {"logit_bias": EOS} if self.reason == "stop" else {"ignore_eos": True}
        return {
            "text_input": self.prompt,
            "sampling_parameters": sampling(
                max(self.tokens, 4), n=self.n, temperature=0.5 if self.n > 1 else 0, **ends
            ),
            "stream": self.way is not Way.GENERATE,
            "return_finish_reason": True,
            "return_num_input_tokens": True,
            "return_num_output_tokens": True,
        }


def mix(count: int) -> list[Asked]:
    """Streams and whole answers, long and short, one sequence and two, ended by length and by the model."""
    return [
        Asked(
            way=WAYS[i % 3],
            prompt="one two three four five six seven"[: 8 + i],
            n=2 if i % 8 == 5 else 1,
            tokens=1 if i % 7 == 3 else 4 + 2 * (i % 8),
            reason="stop" if i % 7 == 3 else "length",
        )
        for i in range(count)
    ]


def test_all_of_32_complete_and_the_metrics_add_up_to_what_they_got(server: Deployment, triton: Triton) -> None:
    requests = mix(32)
    before = at_rest(server.address, LLM.name)
    with Watch(server.address, LLM.name) as watch, ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda asked: triton.ask(asked.way, LLM, asked.inputs), requests))
    for asked, answer in zip(requests, answers, strict=True):
        check(asked, answer)
    count = "vllm:e2e_request_latency_seconds_count"
    after = settled(server.address, LLM.name, lambda now: is_idle(now) and now[count] - before[count] >= len(requests))
    counted = after.since(before)
    tokens = sum(map(tokens_of, answers))
    prompt_tokens = sum(answer[0]["num_input_tokens"][0] for answer in answers)
    assert counted["vllm:generation_tokens_total"] == tokens
    assert counted["vllm:request_generation_tokens_sum"] == tokens
    assert counted["vllm:prompt_tokens_total"] == prompt_tokens
    assert counted["vllm:request_prompt_tokens_sum"] == prompt_tokens
    for reason in ("stop", "length", "abort", "error"):
        ended = sum(asked.n for asked in requests if asked.reason == reason)
        assert counted.at("vllm:request_success_total", finished_reason=reason) == ended
    for histogram in (
        "vllm:time_to_first_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_prompt_tokens",
        "vllm:request_generation_tokens",
        "vllm:request_params_n",
    ):
        assert counted[f"{histogram}_count"] == len(requests), histogram
    assert counted["vllm:request_params_n_sum"] == sum(asked.n for asked in requests)
    # One observation for each step after a request's first; sequences of one request may share a step.
    steps = counted["vllm:inter_token_latency_seconds_count"]
    longest = sum(max(asked.tokens - 1, 0) for asked in requests)
    assert longest <= steps <= tokens - len(requests)
    for nothing in ("cancelled", "failed", "deadline_exceeded"):
        assert counted[f"ladder_requests_{nothing}_total"] == 0
    assert watch.most("vllm:num_requests_running") > 8
    assert watch.most("ladder_requests_running") > 8
    assert watch.most("vllm:kv_cache_usage_perc") > 0


def check(asked: Asked, answer: list[Outputs]) -> None:
    assert tokens_of(answer) == asked.n * asked.tokens
    if asked.way is Way.GENERATE:
        assert len(answer) == 1
    for sequence in range(asked.n):
        reasons = [response["finish_reason"][sequence] for response in answer]
        assert [reason for reason in reasons if reason != "None"] == [asked.reason]
        assert text_of(answer, sequence) or asked.reason == "stop"


@pytest.mark.parametrize(
    "histogram",
    [
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
    ],
)
def test_times_are_counted_from_1_ms_to_10_min(server: Deployment, triton: Triton, histogram: str) -> None:
    triton.ask(Way.GRPC, LLM, {"text_input": "One", "sampling_parameters": sampling(3, ignore_eos=True)})
    scrape = settled(server.address, LLM.name, lambda scrape: scrape[f"{histogram}_count"] > 0)
    bounds = sorted(float(bound) for bound in scrape.label_values(f"{histogram}_bucket", "le"))
    assert bounds[0] == 0.001
    assert bounds[-2:] == [600.0, float("inf")]
    by_bound = sorted(
        (float(dict(labels)["le"]), value)
        for (name, labels), value in scrape.values.items()
        if name == f"{histogram}_bucket"
    )
    counts = [value for _, value in by_bound]
    assert counts == sorted(counts)
    assert counts[-1] == scrape[f"{histogram}_count"]
    # All of it within what the buckets can tell apart: a p99 over them means something.
    # On an idle server nothing waits for as long as a millisecond.
    if histogram != "vllm:request_queue_time_seconds":
        assert counts[0] < counts[-1]
    assert counts[-2] == counts[-1]


def test_what_is_refused_is_counted_and_nothing_else(server: Deployment, triton: Triton) -> None:
    before = at_rest(server.address, LLM.name)
    for _ in range(3):
        with pytest.raises(Exception, match="temprature"):
            triton.ask(Way.GRPC, LLM, {"text_input": "One", "sampling_parameters": '{"temprature": 0}'})
    after = settled(
        server.address,
        LLM.name,
        lambda now: now.since(before).at("ladder_requests_rejected_total", reason="invalid") >= 3,
    )
    counted = after.since(before)
    assert counted.at("ladder_requests_rejected_total", reason="invalid") == 3
    assert counted.at("ladder_requests_rejected_total", reason="queue_full") == 0
    assert counted["vllm:prompt_tokens_total"] == 0
    assert counted["vllm:e2e_request_latency_seconds_count"] == 0


def test_every_series_carries_model_and_version(server: Deployment) -> None:
    scrape = Scrape.of(server.address, LLM.name)
    names = {name for name, _ in scrape.values}
    for metric in METRICS.values():
        if metric.label and not metric.values:
            continue
        suffixes = ("_bucket", "_sum", "_count") if metric.kind in (Kind.HISTOGRAM, Kind.STEP_HISTOGRAM) else ("",)
        assert {metric.name + suffix for suffix in suffixes} <= names
