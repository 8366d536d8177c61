"""Triton's metrics endpoint, fed from the engine's pushes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import triton_python_backend_utils as pb_utils

from tools.wire.messages import Sample
from tools.wire.metric_names import METRICS, Kind, Metric


class MetricFamilies:
    """Families of metrics at Triton's endpoint. Not for several threads at once."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = {metric.name: metric for metric in metrics}
        self._families: dict[str, Any] = {}
        self._series: dict[tuple[str, tuple[str, ...]], Any] = {}
        for metric in self._metrics.values():
            self._register(metric)

    def begin(self, labels: Mapping[str, str]) -> None:
        """Make the series with these labels: one that exists from the start reads 0 and not "no data"."""
        for metric in self._metrics.values():
            if metric.kind is Kind.STEP_HISTOGRAM:
                self._add_buckets(metric, Sample(metric.name, bucket_counts=[0] * (len(metric.buckets) + 1)), labels)
                continue
            for value in metric.values or (() if metric.label else ("",)):
                self._one(metric.name, labels, metric.label, value)

    def add(self, sample: Sample, labels: Mapping[str, str]) -> None:
        """Apply what changed. A name that is none of the families' is skipped: the engine may be newer."""
        metric = self._metrics.get(sample.name)
        if metric is None:
            return
        if metric.kind is Kind.COUNTER:
            self._one(metric.name, labels, metric.label, sample.label).increment(sample.value)
        elif metric.kind is Kind.GAUGE:
            self._one(metric.name, labels).set(sample.value)
        elif metric.kind is Kind.HISTOGRAM:
            histogram = self._one(metric.name, labels)
            for value in sample.observations:
                histogram.observe(value)
        else:
            self._add_buckets(metric, sample, labels)

    def _register(self, metric: Metric) -> None:
        if metric.kind is Kind.STEP_HISTOGRAM:
            for suffix in ("_bucket", "_sum", "_count"):
                self._family(metric.name + suffix, pb_utils.MetricFamily.COUNTER, metric.help)
            return
        kinds = {
            Kind.COUNTER: pb_utils.MetricFamily.COUNTER,
            Kind.GAUGE: pb_utils.MetricFamily.GAUGE,
            Kind.HISTOGRAM: pb_utils.MetricFamily.HISTOGRAM,
        }
        self._family(metric.name, kinds[metric.kind], metric.help)

    def _add_buckets(self, metric: Metric, sample: Sample, labels: Mapping[str, str]) -> None:
        total = 0
        bounds = [f"{bound:g}" for bound in metric.buckets] + ["+Inf"]
        for bound, count in zip(bounds, sample.bucket_counts, strict=True):
            total += count
            bucket = self._one(f"{metric.name}_bucket", labels, "le", bound)
            if total:
                bucket.increment(total)
        self._one(f"{metric.name}_sum", labels).increment(sample.value)
        self._one(f"{metric.name}_count", labels).increment(total)

    def _family(self, name: str, kind: Any, help_text: str) -> None:
        self._families[name] = pb_utils.MetricFamily(name=name, description=help_text, kind=kind)

    def _one(self, name: str, labels: Mapping[str, str], label: str = "", value: str = "") -> Any:
        """The series of `name` with `labels`, and with `label` where the family has one of its own."""
        key = name, (*labels.values(), value)
        series = self._series.get(key)
        if series is None:
            metric = self._metrics.get(name)
            buckets = {"buckets": list(metric.buckets)} if metric and metric.kind is Kind.HISTOGRAM else {}
            all_labels = {**labels, label: value} if label else dict(labels)
            series = self._families[name].Metric(labels=all_labels, **buckets)
            self._series[key] = series
        return series


class ServedMetrics:
    """All metric families of one model version."""

    def __init__(self, model: str, version: str) -> None:
        self._labels = {"model": model, "version": version}
        self._families = MetricFamilies(METRICS.values())
        self._families.begin(self._labels)
        # The engine's pushes and the supervisor's news come from two threads.
        self._lock = threading.Lock()

    def add(self, samples: list[Sample]) -> None:
        """Apply what changed."""
        with self._lock:
            for sample in samples:
                self._families.add(sample, self._labels)
