from __future__ import annotations

import re
import threading

import pytest

from tests.fixtures.fake_pb_utils import Metric, MetricFamily
from tools.backends.metrics import ServedMetrics
from tools.wire.messages import Sample
from tools.wire.metric_names import FINISH_REASONS, METRICS, REJECTIONS, SECONDS, Kind

BASE = {"model": "llm", "version": "3"}
ITL = "vllm:inter_token_latency_seconds"


@pytest.fixture
def served() -> ServedMetrics:
    return ServedMetrics("llm", "3")


def series(name: str, **labels: str) -> Metric:
    (metric,) = [metric for metric in MetricFamily.registered[name].metrics if metric.labels == {**BASE, **labels}]
    return metric


def test_every_metric_is_there_from_the_start(served: ServedMetrics) -> None:
    for metric in METRICS.values():
        if metric.kind is Kind.STEP_HISTOGRAM:
            for suffix in ("_bucket", "_sum", "_count"):
                assert MetricFamily.registered[metric.name + suffix].kind == MetricFamily.COUNTER
                assert all(item.value() == 0 for item in MetricFamily.registered[metric.name + suffix].metrics)
        else:
            family = MetricFamily.registered[metric.name]
            assert family.kind == metric.kind.value
            assert family.description == metric.help
    assert len(MetricFamily.registered[f"{ITL}_bucket"].metrics) == len(SECONDS) + 1
    for reason in FINISH_REASONS:
        assert series("vllm:request_success_total", finished_reason=reason).value() == 0
    for reason in REJECTIONS:
        assert series("ladder_requests_rejected_total", reason=reason).value() == 0
    assert series("vllm:e2e_request_latency_seconds").buckets == list(SECONDS)


def test_counters_add_up_by_label(served: ServedMetrics) -> None:
    served.add([Sample("vllm:request_success_total", 2, "stop"), Sample("vllm:request_success_total", 1, "length")])
    served.add([Sample("vllm:request_success_total", 3, "stop"), Sample("ladder_engine_restarts_total", 1)])
    assert series("vllm:request_success_total", finished_reason="stop").value() == 5
    assert series("vllm:request_success_total", finished_reason="length").value() == 1
    assert series("ladder_engine_restarts_total").value() == 1


def test_a_label_value_of_a_newer_engine_gets_its_series(served: ServedMetrics) -> None:
    for _ in range(2):
        served.add([Sample("vllm:spec_decode_num_accepted_tokens_per_pos_total", 4, "7")])
    assert series("vllm:spec_decode_num_accepted_tokens_per_pos_total", position="7").value() == 8


def test_gauges_are_set(served: ServedMetrics) -> None:
    served.add([Sample("vllm:num_requests_running", 4)])
    served.add([Sample("vllm:num_requests_running", 1)])
    assert series("vllm:num_requests_running").value() == 1


def test_histograms_observe(served: ServedMetrics) -> None:
    served.add([Sample("vllm:request_prompt_tokens", observations=[3, 4])])
    served.add([Sample("vllm:request_prompt_tokens", observations=[5])])
    assert series("vllm:request_prompt_tokens").observations == [3, 4, 5]


def test_buckets_are_cumulative(served: ServedMetrics) -> None:
    counts = [0] * (len(SECONDS) + 1)
    counts[0], counts[3], counts[-1] = 2, 5, 1
    for _ in range(2):
        served.add([Sample(ITL, 1.5, bucket_counts=counts)])
    values = [series(f"{ITL}_bucket", le=f"{bound:g}").value() for bound in SECONDS]
    assert values[:4] == [4, 4, 4, 14]
    assert set(values[3:]) == {14}
    assert series(f"{ITL}_bucket", le="+Inf").value() == 16
    assert series(f"{ITL}_count").value() == 16
    assert series(f"{ITL}_sum").value() == 3


def test_what_this_release_does_not_know_is_skipped(served: ServedMetrics) -> None:
    served.add([Sample("vllm:invented_later_total", 1), Sample("ladder_engine_up", 1)])
    assert series("ladder_engine_up").value() == 1
    assert "vllm:invented_later_total" not in MetricFamily.registered


def test_two_threads_may_tell_at_once(served: ServedMetrics) -> None:
    def tell(label: int) -> None:
        for number in range(200):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            served.add([Sample(name, 1, str(number)), Sample("ladder_requests_failed_total", 1)])

    threads = [threading.Thread(target=tell, args=(label,)) for label in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert series("ladder_requests_failed_total").value() == 400
    assert len(MetricFamily.registered["vllm:spec_decode_num_accepted_tokens_per_pos_total"].metrics) == 200


def test_names_are_legal_for_prometheus(served: ServedMetrics) -> None:
    for name in MetricFamily.registered:
        assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name)
