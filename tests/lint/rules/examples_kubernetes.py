"""Examples for the rules on autoscalers' manifests."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import python_model, vllm_model
from tools.lint.findings import Severity

LLM = vllm_model()


def hpa(metric: str, api: str = "autoscaling/v2") -> dict[str, str]:
    text = f"""apiVersion: {api}
kind: HorizontalPodAutoscaler
metadata:
  name: llm
spec:
  metrics:
  - type: Pods
    pods:
      metric:
        name: {metric}
      target: {{ type: AverageValue, averageValue: "4" }}
"""
    return {"repo/hpa.yaml": text}


def scaled_object(query: str) -> dict[str, str]:
    text = f"""apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: llm
spec:
  triggers:
  - type: prometheus
    metadata:
      query: {query}
"""
    return {"repo/keda.yml": text}


WAITING = hpa("vllm_num_requests_waiting")

EXAMPLES = (
    Example(
        "TL801",
        says="HorizontalPodAutoscaler 'llm' uses 'autoscaling/v2beta2'",
        fails={**LLM, **hpa("vllm_num_requests_waiting", "autoscaling/v2beta2")},
        passes={**LLM, **WAITING},
        line=1,
    ),
    Example(
        "TL802",
        says="HorizontalPodAutoscaler 'llm' scales on Triton's queue metric 'nv_inference_queue_duration_us'",
        fails={**LLM, **hpa("nv_inference_queue_duration_us")},
        passes={**python_model("max_batch_size: 4\ndynamic_batching { }\n"), **hpa("nv_inference_queue_duration_us")},
        line=10,
    ),
    Example(
        "TL802",
        says="ScaledObject 'llm' scales on Triton's queue metric 'nv_inference_pending_request_count'",
        severity=Severity.WARNING,  # alone, nobody knows what it scales
        fails=scaled_object("sum(nv_inference_pending_request_count)"),
        passes=scaled_object("'sum(vllm:num_requests_waiting)'"),
        line=9,
    ),
    Example(
        "TL803",
        says="HorizontalPodAutoscaler 'llm' names metric 'vllm:num_requests_waiting', with a colon",
        fails={**LLM, **hpa("'vllm:num_requests_waiting'")},
        passes={**LLM, **WAITING},
        line=10,
    ),
    Example(
        "TL804",
        says="'hpa.yaml' is a template and was not checked",
        fails={**LLM, **hpa("{{ .Values.metric }}")},
        passes={**LLM, **WAITING},
    ),
    Example(
        "TL805",
        says="'hpa.yaml' is not valid YAML: mapping values are not allowed here",
        fails={**LLM, "repo/hpa.yaml": "kind: HorizontalPodAutoscaler\nspec: a: b\n"},
        passes={**LLM, "repo/other.yaml": "kind: Deployment\nspec: a: b\n"},
        line=2,
    ),
    Example(
        "TL806",
        says="HorizontalPodAutoscaler 'llm' scales on the percentile 'vllm_p99_latency_ms'",
        fails={**LLM, **hpa("vllm_p99_latency_ms")},
        passes={**LLM, **WAITING},
        line=10,
    ),
)
