"""Triton's metrics endpoint, fed from the engine's pushes."""

from __future__ import annotations

import threading
from typing import Any

import triton_python_backend_utils as pb_utils

from tools.wire.messages import Sample
from tools.wire.metric_names import METRICS, Kind, Metric


class ServedMetrics:
    """All metric families of one model version."""

    def __init__(self, model: str, version: str) -> None:
        self._labels = {"model": model, "version": version}
        self._families: dict[str, Any] = {}
        self._series: dict[tuple[str, str], Any] = {}
        # The engine's pushes and the supervisor's news come from two threads.
        self._lock = threading.Lock()
        for metric in METRICS.values():
            self._register(metric)

    def add(self, samples: list[Sample]) -> None:
        """Apply what changed. Names that this release does not know are skipped: the engine may be newer."""
        with self._lock:
            for sample in samples:
                if metric := METRICS.get(sample.name):
                    self._add(metric, sample)

    def _add(self, metric: Metric, sample: Sample) -> None:
        if metric.kind is Kind.COUNTER:
            self._one(metric.name, metric.label, sample.label).increment(sample.value)
        elif metric.kind is Kind.GAUGE:
            self._one(metric.name, "", "").set(sample.value)
        elif metric.kind is Kind.HISTOGRAM:
            histogram = self._one(metric.name, "", "")
            for value in sample.observations:
                histogram.observe(value)
        else:
            self._add_buckets(metric, sample)

    def _register(self, metric: Metric) -> None:
        if metric.kind is Kind.STEP_HISTOGRAM:
            for suffix in ("_bucket", "_sum", "_count"):
                self._family(metric.name + suffix, pb_utils.MetricFamily.COUNTER, metric.help)
            self._add_buckets(metric, Sample(metric.name, bucket_counts=[0] * (len(metric.buckets) + 1)))
            return
        kinds = {
            Kind.COUNTER: pb_utils.MetricFamily.COUNTER,
            Kind.GAUGE: pb_utils.MetricFamily.GAUGE,
            Kind.HISTOGRAM: pb_utils.MetricFamily.HISTOGRAM,
        }
        self._family(metric.name, kinds[metric.kind], metric.help)
        # A series that exists from the start reads 0 and not "no data".
        for value in metric.values or (() if metric.label else ("",)):
            self._one(metric.name, metric.label, value)

    def _add_buckets(self, metric: Metric, sample: Sample) -> None:
        total = 0
        bounds = [f"{bound:g}" for bound in metric.buckets] + ["+Inf"]
        for bound, count in zip(bounds, sample.bucket_counts, strict=True):
            total += count
            self._one(f"{metric.name}_bucket", "le", bound).increment(total)
        self._one(f"{metric.name}_sum", "", "").increment(sample.value)
        self._one(f"{metric.name}_count", "", "").increment(total)

    def _family(self, name: str, kind: Any, help_text: str) -> None:
        self._families[name] = pb_utils.MetricFamily(name=name, description=help_text, kind=kind)

    def _one(self, name: str, label: str, value: str) -> Any:
        """The series of `name`; with `label` empty, the only one."""
        series = self._series.get((name, value))
        if series is None:
            labels = {**self._labels, label: value} if label else self._labels
            metric = METRICS.get(name)
            buckets = {"buckets": list(metric.buckets)} if metric and metric.kind is Kind.HISTOGRAM else {}
            series = self._families[name].Metric(labels=labels, **buckets)
            self._series[name, value] = series
        return series
