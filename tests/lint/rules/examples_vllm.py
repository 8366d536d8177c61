"""Examples for the rules on the config.pbtxt of a vLLM model."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import KIND_MODEL, VLLM_TENSORS, python_model, vllm_model

GOOD = vllm_model()
DRAFT = {"method": "eagle3", "model": "org/eagle3-head", "num_speculative_tokens": 3}


def group(text: str) -> str:
    return f"instance_group [ {{ {text} }} ]\n"


EXAMPLES = (
    Example(
        "TL501",
        says="'llm' has backend vllm and max_batch_size 16",
        fails=vllm_model(extra="max_batch_size: 16\n"),
        passes=vllm_model(extra="max_batch_size: 0\n"),
        line=15,
    ),
    Example(
        "TL502",
        says="'llm' has backend vllm and dynamic_batching; it never gathers a batch",
        fails=vllm_model(extra="dynamic_batching { }\n"),
        passes=GOOD,
        line=15,
    ),
    Example(
        "TL502",
        says="its queue policy never applies",
        fails=vllm_model(extra="dynamic_batching { default_queue_policy { max_queue_size: 8 } }\n"),
        passes=python_model("max_batch_size: 4\ndynamic_batching { default_queue_policy { max_queue_size: 8 } }\n"),
    ),
    Example(
        "TL503",
        says="'llm' has backend vllm but its transaction policy is not decoupled",
        fails=vllm_model(policy="model_transaction_policy { decoupled: false }\n"),
        passes=GOOD,
        line=3,
    ),
    Example(
        "TL504",
        says="'llm' version 1 spans 2 GPUs, but instance_group 0 is KIND_GPU",
        fails=vllm_model({"tensor_parallel_size": 2}, group=group("kind: KIND_GPU")),
        passes=vllm_model({"tensor_parallel_size": 2}),
        line=4,
    ),
    Example(
        "TL504",
        says="'llm' version 1 spans 4 GPUs, but instance_group 0 is KIND_AUTO",
        fails=vllm_model({"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, group=group("kind: KIND_AUTO")),
        passes=vllm_model(group=group("kind: KIND_GPU gpus: [ 0 ]")),
    ),
    Example(
        "TL505",
        says="instance_group 0 of 'llm' is KIND_AUTO",
        fails=vllm_model(group=group("kind: KIND_AUTO count: 1")),
        passes=GOOD,
        line=4,
    ),
    Example(
        "TL505",
        says="instance_group 0 of 'llm' names no kind, so KIND_AUTO",
        fails=vllm_model(group=group("count: 1")),
        passes=vllm_model(group=""),
        line=4,
    ),
    Example(
        "TL506",
        says="'llm' has 2 instances of KIND_MODEL, all on the same GPU",
        fails=vllm_model({"gpu_memory_utilization": 0.4}, group=group("count: 2 kind: KIND_MODEL")),
        passes=vllm_model({"gpu_memory_utilization": 0.4}, group=group("count: 2 kind: KIND_GPU gpus: [ 0, 1 ]")),
        line=4,
    ),
    Example(
        "TL507",
        says="'llm' version 1 needs 4 GPUs, instance_group 0 lists 2",
        fails=vllm_model({"tensor_parallel_size": 4}, group=group("kind: KIND_GPU gpus: [ 0, 1 ]")),
        passes=vllm_model({"tensor_parallel_size": 4}),
        beside=frozenset({"TL504"}),
    ),
    Example(
        "TL508",
        says="parameter 'quantization' (\"awq\") of 'llm' is an engine argument, not read from config.pbtxt",
        fails=vllm_model(extra='parameters { key: "quantization" value { string_value: "awq" } }\n'),
        passes=vllm_model(extra='parameters { key: "MAX_WAITING_REQUESTS" value { string_value: "8" } }\n'),
        line=15,
    ),
    Example(
        "TL508",
        says="parameter 'max-model-len'",
        fails=vllm_model(extra='parameters { key: "max-model-len" value { string_value: "4096" } }\n'),
        passes=python_model('parameters { key: "max_model_len" value { string_value: "4096" } }\n'),
        vllm_installed=False,
        beside=frozenset({"TL607"}),
    ),
    Example(
        "TL509",
        says="parameter 'REPORT_CUSTOM_METRICS' of 'llm' is \"yes\", which counts as false",
        fails=vllm_model(extra='parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "yes" } }\n'),
        passes=vllm_model(extra='parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "True" } }\n'),
    ),
    Example(
        "TL510",
        says="config.pbtxt of 'llm' leaves 'text_input', 'text_output', 'model_transaction_policy' to auto-completion",
        fails=vllm_model(tensors="", policy=""),
        passes=GOOD,
    ),
    Example(
        "TL511",
        says="input 'stream' of 'llm' is not marked optional, so every request must bring it",
        fails=vllm_model(tensors=VLLM_TENSORS.replace("TYPE_BOOL dims: [ 1 ] optional: true", "TYPE_BOOL dims: [ 1 ]")),
        passes=GOOD,
        line=8,
    ),
    Example(
        "TL512",
        says="input 'stream' of 'llm' is TYPE_STRING, the backend has TYPE_BOOL",
        fails=vllm_model(tensors=VLLM_TENSORS.replace("TYPE_BOOL", "TYPE_STRING")),
        passes=GOOD,
        line=8,
    ),
    Example(
        "TL512",
        says="output 'text_output' of 'llm' has dims [1, -1], the backend [-1]",
        fails=vllm_model(
            tensors=VLLM_TENSORS.replace(
                '"text_output" data_type: TYPE_STRING dims: [ -1 ]',
                '"text_output" data_type: TYPE_STRING dims: [ 1, -1 ]',
            )
        ),
        passes=GOOD,
    ),
    Example(
        "TL513",
        says="instance_group 0 of 'llm' has a rate_limiter",
        fails=vllm_model(group=group('kind: KIND_MODEL rate_limiter { resources { name: "R" count: 4 } }')),
        passes=python_model(group('kind: KIND_CPU rate_limiter { resources { name: "R" count: 4 } }')),
    ),
    Example(
        "TL514",
        says="'llm' version 1 disables the statistics that REPORT_CUSTOM_METRICS reports",
        fails=vllm_model(
            {"disable_log_stats": True}, 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }\n'
        ),
        passes=vllm_model(
            {"disable_log_stats": False}, 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }\n'
        ),
        line=3,
    ),
    Example(
        "TL721",
        says="engines on GPU 0 claim 1.5 of its memory: 'bf16' version 1 0.6, 'llm' version 1 0.9 (vLLM's default)",
        fails={**vllm_model({"gpu_memory_utilization": 0.6}, name="bf16"), **GOOD},
        passes={
            **vllm_model({"gpu_memory_utilization": 0.6}, name="bf16"),
            **vllm_model({"gpu_memory_utilization": 0.4}),
        },
    ),
    Example(
        "TL721",
        says="engines on GPU 0 claim 1.2 of its memory: 'llm' version 1 0.6, 'llm' version 2 0.6",
        fails={
            **vllm_model({"gpu_memory_utilization": 0.6}, "version_policy { all { } }\n"),
            "repo/llm/2/model.json": '{"model": "org/model", "gpu_memory_utilization": 0.6}',
        },
        passes={
            **vllm_model({"gpu_memory_utilization": 0.6}, "version_policy { specific { versions: [ 1 ] } }\n"),
            "repo/llm/2/model.json": '{"model": "org/model", "gpu_memory_utilization": 0.6}',
        },
    ),
    Example(
        "TL721",
        says="engines on GPU 1 claim 1.3 of its memory: 'a' version 1 0.9 (vLLM's default), 'b' version 1 0.4",
        fails={
            **vllm_model({"tensor_parallel_size": 2}, name="a"),
            **vllm_model({"gpu_memory_utilization": 0.4}, name="b", group=group("kind: KIND_GPU gpus: [ 1 ]")),
        },
        passes={
            **vllm_model(name="a", group=group("kind: KIND_GPU gpus: [ 0 ]")),
            **vllm_model(name="b", group=group("kind: KIND_GPU gpus: [ 1 ]")),
            **vllm_model({"kv_cache_memory_bytes": 2**30}, name="c"),
            **vllm_model(name="d", group=group("kind: KIND_CPU")),
        },
    ),
    Example(
        "TL721",
        says="engines on GPU 0 claim 1.8 of its memory",
        fails=vllm_model(group=KIND_MODEL.replace("count: 1", "count: 2")),
        passes=GOOD,
        beside=frozenset({"TL506"}),
    ),
    Example(
        "TL722",
        says="'llm' version 1 loads the draft 'org/eagle3-head' and fixes 'kv_cache_memory_bytes', to which vLLM adds",
        fails=vllm_model({"speculative_config": DRAFT, "kv_cache_memory_bytes": 2**30}),
        passes=vllm_model({"speculative_config": DRAFT, "gpu_memory_utilization": 0.5}),
        fix="Set 'gpu_memory_utilization' instead: vLLM then gives the KV cache what target and draft leave.",
    ),
    Example(
        "TL722",
        says="'llm' version 1 loads the draft 'org/eagle3-head' within the same share of the GPU (0.4) as "
        "'plain' version 1, which loads none",
        fails={
            **vllm_model({"gpu_memory_utilization": 0.4, "max_num_seqs": 64}, name="plain"),
            **vllm_model({"gpu_memory_utilization": 0.4, "max_num_seqs": 64, "speculative_config": DRAFT}),
        },
        passes={
            **vllm_model({"gpu_memory_utilization": 0.4, "max_num_seqs": 64}, name="plain"),
            **vllm_model({"gpu_memory_utilization": 0.4, "max_num_seqs": 16, "speculative_config": DRAFT}),
        },
    ),
)
