from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.engine.accounting import Accounting
from tools.wire.messages import Sample
from tools.wire.metric_names import SECONDS


def test_counters_are_increases_since_the_last_take() -> None:
    accounting = Accounting()
    accounting.count("vllm:generation_tokens_total", 3)
    accounting.count("vllm:generation_tokens_total")
    accounting.count("vllm:request_success_total", label="stop")
    accounting.count("vllm:request_success_total", 2, label="length")
    assert accounting.take() == [
        Sample("vllm:generation_tokens_total", 4),
        Sample("vllm:request_success_total", 1, "stop"),
        Sample("vllm:request_success_total", 2, "length"),
    ]
    assert accounting.take() == []


def test_an_increase_of_nothing_is_no_news() -> None:
    accounting = Accounting()
    accounting.count("vllm:prefix_cache_hits_total", 0)
    assert accounting.take() == []


@pytest.mark.parametrize("name", ["vllm:num_requests_running", "vllm:e2e_request_latency_seconds"])
def test_only_counters_count(name: str) -> None:
    with pytest.raises(KeyError, match=f'metric "{name}" is no counter'):
        Accounting().count(name)


def test_a_counter_that_is_not_listed_is_refused() -> None:
    with pytest.raises(KeyError, match="no_such_metric"):
        Accounting().count("no_such_metric")


def test_gauges_are_told_when_they_change_and_when_a_stub_has_just_come() -> None:
    accounting = Accounting()
    accounting.gauge("vllm:num_requests_running", 2)
    assert accounting.take() == [Sample("vllm:num_requests_running", 2)]
    accounting.gauge("vllm:num_requests_running", 2)
    assert accounting.take() == []
    accounting.gauge("vllm:num_requests_running", 0)
    assert accounting.take() == [Sample("vllm:num_requests_running", 0)]
    accounting.resend_gauges()
    assert accounting.take() == [Sample("vllm:num_requests_running", 0)]


def test_observations_are_handed_over_once() -> None:
    accounting = Accounting()
    accounting.observe("vllm:request_params_n", 1)
    accounting.observe("vllm:request_params_n", 4)
    assert accounting.take() == [Sample("vllm:request_params_n", observations=[1, 4])]
    assert accounting.take() == []


def test_a_boundary_belongs_to_the_bucket_it_bounds() -> None:
    """Prometheus' buckets are "less than or equal"."""
    accounting = Accounting()
    for seconds in (0.001, 0.0011, 600.0, 601.0):
        accounting.inter_token_latency(seconds)
    for name, sample in zip(
        ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"), accounting.take(), strict=True
    ):
        assert sample.name == name
        assert sample.value == pytest.approx(1201.0021)
        assert sample.bucket_counts[:2] == [1, 1]
        assert sample.bucket_counts[-2:] == [1, 1]
        assert len(sample.bucket_counts) == len(SECONDS) + 1
    assert accounting.take() == []


@given(st.lists(st.floats(0, 1000), max_size=50), st.data())
def test_taking_at_any_moment_loses_and_doubles_nothing(latencies: list[float], data: st.DataObject) -> None:
    accounting = Accounting()
    total, counts, tokens = 0.0, [0] * (len(SECONDS) + 1), 0.0
    for latency in [*latencies, None]:
        if latency is not None:
            accounting.inter_token_latency(latency)
            accounting.count("vllm:generation_tokens_total", 2)
        if latency is None or data.draw(st.booleans()):
            for sample in accounting.take():
                if sample.name == "vllm:inter_token_latency_seconds":
                    total += sample.value
                    counts = [a + b for a, b in zip(counts, sample.bucket_counts, strict=True)]
                elif sample.name == "vllm:generation_tokens_total":
                    tokens += sample.value
    assert total == pytest.approx(sum(latencies))
    bounds = [*SECONDS, float("inf")]
    assert [sum(counts[: i + 1]) for i in range(len(bounds))] == [
        sum(latency <= bound for latency in latencies) for bound in bounds
    ]
    assert tokens == 2 * len(latencies)
