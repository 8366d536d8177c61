from __future__ import annotations

import re

from tools.wire.metric_names import _METRICS, METRICS, SECONDS, Kind


def test_every_name_is_there_once() -> None:
    assert len(METRICS) == len(_METRICS)


def test_names_are_legal_and_say_their_kind() -> None:
    for metric in METRICS.values():
        assert re.fullmatch(r"(vllm:|ladder_)[a-z0-9_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        # Suffixes that Prometheus itself adds to a histogram's name.
        assert not metric.name.endswith(("_bucket", "_sum", "_count"))


def test_the_ladders_own_names_have_no_colon() -> None:
    assert [name for name in METRICS if name.startswith("ladder") and ":" in name] == []


def test_no_series_of_a_histogram_is_another_metric() -> None:
    for metric in METRICS.values():
        if metric.kind in (Kind.HISTOGRAM, Kind.STEP_HISTOGRAM):
            assert not {f"{metric.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")} & set(METRICS)


def test_histograms_have_sorted_buckets_and_nothing_else_has() -> None:
    for metric in METRICS.values():
        if metric.kind in (Kind.HISTOGRAM, Kind.STEP_HISTOGRAM):
            assert list(metric.buckets) == sorted(set(metric.buckets))
            assert metric.buckets
        else:
            assert metric.buckets == ()


def test_seconds_reach_from_a_millisecond_to_ten_minutes() -> None:
    assert (SECONDS[0], SECONDS[-1]) == (0.001, 600.0)
    for metric in METRICS.values():
        if metric.name.endswith("_seconds"):
            assert metric.buckets == SECONDS


def test_buckets_are_told_apart_in_their_labels() -> None:
    for metric in METRICS.values():
        labels = [f"{bound:g}" for bound in metric.buckets]
        assert len(set(labels)) == len(labels)
        assert [float(label) for label in labels] == list(metric.buckets)


def test_label_values_need_a_label() -> None:
    for metric in METRICS.values():
        assert bool(metric.label) or not metric.values
        assert metric.help.endswith(".")
