"""Rules on the Kubernetes objects that scale a server: HorizontalPodAutoscaler and KEDA's ScaledObject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.lint.findings import Severity
from tools.lint.manifests import KeyPath, Manifest, ManifestDocument
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Workspace

_QUEUE_METRIC = re.compile(r"nv_inference_(?:queue|pending)\w*|avg_time_queue_\w+")


@rule(
    "TL801",
    "hpa-removed-api",
    Scope.DOCUMENT,
    Severity.ERROR,
    reason="Kubernetes removed autoscaling/v2beta1 in 1.25 and v2beta2 in 1.26.",
    fix="Use 'apiVersion: autoscaling/v2'.",
)
def hpa_removed_api(document: ManifestDocument, _: Workspace) -> Iterator[Problem]:
    version = str(document.value.get("apiVersion", ""))
    if document.kind == "HorizontalPodAutoscaler" and re.fullmatch(r"autoscaling/v2(alpha|beta)\d", version):
        yield Problem(f"{document.kind} '{document.name}' uses '{version}'", document.at("apiVersion"))


@rule(
    "TL802",
    "hpa-queue-metric",
    Scope.DOCUMENT,
    Severity.ERROR,
    reason="vLLM's backend takes requests at once: Triton's queue stays empty under any load, and nothing ever scales.",
    fix="Scale on what the engine says: its waiting requests (vllm:num_requests_waiting) or KV cache usage.",
)
def hpa_queue_metric(document: ManifestDocument, workspace: Workspace) -> Iterator[Problem]:
    if workspace.models and not any(model.is_vllm for model in workspace.models):
        return  # models that Triton itself queues for: their queue metrics mean what they say
    severity = None if workspace.models else Severity.WARNING
    for name, path in _metric_texts(document):
        match = _QUEUE_METRIC.search(name)
        if match:
            message = f"{document.kind} '{document.name}' scales on Triton's queue metric '{match[0]}'"
            yield Problem(message, document.at(*path), severity=severity)


@rule(
    "TL803",
    "hpa-metric-colon",
    Scope.DOCUMENT,
    Severity.ERROR,
    reason="A colon is legal in Prometheus, but not in the custom metrics API, where the name is part of a URL path.",
    fix="Rename it in the adapter's rule, as in 'vllm_num_requests_waiting', and use that name here.",
)
def hpa_metric_colon(document: ManifestDocument, _: Workspace) -> Iterator[Problem]:
    for name, path in _hpa_metric_names(document):
        if ":" in name:
            yield Problem(f"{document.kind} '{document.name}' names metric '{name}', with a colon", document.at(*path))


@rule(
    "TL804",
    "manifest-template",
    Scope.MANIFEST,
    Severity.NOTE,
    reason="A Helm template is no manifest yet, and cannot be checked.",
    fix="Render it ('helm template') and lint the result.",
)
def manifest_template(manifest: Manifest, _: Workspace) -> Iterator[Problem]:
    if manifest.is_template:
        yield Problem(f"'{manifest.path.name}' is a template and was not checked", manifest.place)


@rule(
    "TL805",
    "manifest-syntax",
    Scope.MANIFEST,
    Severity.ERROR,
    reason="Kubernetes cannot apply what is not valid YAML.",
    fix="Correct the YAML at this place.",
)
def manifest_syntax(manifest: Manifest, _: Workspace) -> Iterator[Problem]:
    if manifest.problem is not None:
        yield Problem(f"'{manifest.path.name}' is not valid YAML: {manifest.problem}", manifest.place)


@rule(
    "TL806",
    "hpa-percentile-average",
    Scope.DOCUMENT,
    Severity.WARNING,
    reason="The autoscaler computes as if a metric fell in proportion to the pods; a percentile does not.",
    fix="Scale on load, such as waiting requests or queries per second, and alert on the percentile.",
)
def hpa_percentile_average(document: ManifestDocument, _: Workspace) -> Iterator[Problem]:
    for name, path in _hpa_metric_names(document):
        if re.search(r"(?:^|[_:])p(?:50|9\d{1,2})(?:[_:]|$)", name):
            message = f"{document.kind} '{document.name}' scales on the percentile '{name}'"
            yield Problem(message, document.at(*path))


def _metric_texts(document: ManifestDocument) -> Iterator[tuple[str, KeyPath]]:
    """Metric names of an HPA, and the queries of a ScaledObject's triggers."""
    yield from _hpa_metric_names(document)
    if document.kind != "ScaledObject":
        return
    for index, trigger in enumerate(_list(_get(document.value, "spec", "triggers"))):
        query = _get(trigger, "metadata", "query")
        if isinstance(query, str):
            yield query, ("spec", "triggers", index, "metadata", "query")


def _hpa_metric_names(document: ManifestDocument) -> Iterator[tuple[str, KeyPath]]:
    if document.kind != "HorizontalPodAutoscaler":
        return
    for index, metric in enumerate(_list(_get(document.value, "spec", "metrics"))):
        for source in ("pods", "object", "external"):
            for keys in ((source, "metric", "name"), (source, "metricName")):  # the latter in v2beta1
                name = _get(metric, *keys)
                if isinstance(name, str):
                    yield name, ("spec", "metrics", index, *keys)


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
