"""Examples for the rules on a config.pbtxt whatever its backend."""

from __future__ import annotations

from tests.lint.rules.example import Example
from tests.lint.trees import DECOUPLED, TEXT_IN, TEXT_OUT, config_only, python_model
from tools.lint.findings import Severity

GOOD = python_model()
BATCHING = "max_batch_size: 8\n"

EXAMPLES = (
    Example(
        "TL401",
        says="model 'm': neither 'backend' nor 'platform' is set",
        fails={"repo/m/config.pbtxt": 'name: "m"\n', "repo/m/1/weights.bin": b"\1"},
        passes=config_only('name: "m"\n'),
    ),
    Example(
        "TL401",
        says="platform 'caffe2_netdef' is unknown",
        fails=config_only('name: "m"\nplatform: "caffe2_netdef"\n'),
        passes={"repo/m/config.pbtxt": 'platform: "tensorrt_plan"\n', "repo/m/1/model.plan": b"\1"},
        line=2,
    ),
    Example(
        "TL402",
        says="instance_group 1 of 'm' is KIND_MODEL but lists gpus [0, 1]",
        fails=python_model("instance_group [ { kind: KIND_CPU },\n { kind: KIND_MODEL gpus: [ 0, 1 ] } ]\n"),
        passes=python_model("instance_group [ { kind: KIND_GPU gpus: [ 0, 1 ] } ]\n"),
        line=6,
    ),
    Example(
        "TL403",
        says="preferred_batch_size 16 of 'm' is outside 1 .. max_batch_size 8",
        fails=python_model(BATCHING + "dynamic_batching { preferred_batch_size: [ 4, 16 ] }\n"),
        passes=python_model(BATCHING + "dynamic_batching { preferred_batch_size: [ 4, 8 ] }\n"),
        line=6,
    ),
    Example(
        "TL403",
        says="preferred_batch_size 0 of 'm'",
        fails=python_model(BATCHING + "sequence_batching { oldest { preferred_batch_size: [ 0 ] } }\n"),
        passes=python_model(BATCHING + "sequence_batching { oldest { preferred_batch_size: [ 2 ] } }\n"),
    ),
    Example(
        "TL404",
        says="default_priority_level 0 of 'm' is outside 1 .. 3",
        fails=python_model(BATCHING + "dynamic_batching { priority_levels: 3 }\n"),
        passes=python_model(BATCHING + "dynamic_batching { priority_levels: 3 default_priority_level: 2 }\n"),
    ),
    Example(
        "TL404",
        says="priority_queue_policy of 'm' has level 4, outside 1 .. 3",
        fails=python_model(
            BATCHING + "dynamic_batching { priority_levels: 3 default_priority_level: 2\n"
            "  priority_queue_policy { key: 4 value { max_queue_size: 8 } } }\n"
        ),
        passes=python_model(
            BATCHING + "dynamic_batching { priority_levels: 3 default_priority_level: 2\n"
            "  priority_queue_policy { key: 3 value { max_queue_size: 8 } } }\n"
        ),
        line=7,
    ),
    Example(
        "TL405",
        says="preserve_ordering of 'm' stands beside 2 priority levels",
        fails=python_model(
            BATCHING + "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }\n"
        ),
        passes=python_model(BATCHING + "dynamic_batching { preserve_ordering: true }\n"),
    ),
    Example(
        "TL405",
        says="preserve_ordering of 'm' stands beside timeout_action DELAY",
        fails=python_model(
            BATCHING + "dynamic_batching { preserve_ordering: true\n"
            "  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 } }\n"
        ),
        passes=python_model(
            BATCHING + "dynamic_batching { preserve_ordering: true\n"
            "  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 1000 } }\n"
        ),
    ),
    Example(
        "TL406",
        says="response_cache is enabled for 'm', which is decoupled",
        fails=python_model(DECOUPLED + "response_cache { enable: true }\n"),
        passes=python_model("response_cache { enable: true }\n"),
        line=6,
    ),
    Example(
        "TL406",
        says="response_cache is enabled for 'm', which is scheduled by sequence_batching",
        fails=python_model(BATCHING + "sequence_batching { }\nresponse_cache { enable: true }\n"),
        passes=python_model(BATCHING + "sequence_batching { }\nresponse_cache { enable: false }\n"),
    ),
    Example(
        "TL407",
        says="'m' has dynamic_batching but max_batch_size 0",
        fails=python_model("dynamic_batching { max_queue_delay_microseconds: 100 }\n"),
        passes=python_model("dynamic_batching { default_queue_policy { max_queue_size: 64 } }\n"),
        line=5,
    ),
    Example(
        "TL408",
        says="input 'x' of 'm' has no data_type",
        fails=python_model(tensors='input { name: "x" dims: [ 1 ] }\n'),
        passes=GOOD,
        line=3,
    ),
    Example(
        "TL408",
        says="output '0' of 'm' has no name",
        fails=python_model(tensors="output { data_type: TYPE_FP32 dims: [ 1 ] }\n"),
        passes=GOOD,
    ),
    Example(
        "TL408",
        says="input 'x' of 'm' has no dims",
        fails=python_model(tensors='input { name: "x" data_type: TYPE_FP32 }\n'),
        passes=GOOD,
    ),
    Example(
        "TL408",
        says="input 'x' of 'm' has dimension 0",
        fails=python_model(tensors='input { name: "x" data_type: TYPE_FP32 dims: [ 0 ] }\n'),
        passes=python_model(tensors='input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }\n'),
    ),
    Example(
        "TL409",
        says="input 'text' of 'm' is defined 2 times",
        fails=python_model(tensors=TEXT_IN + TEXT_IN),
        passes=python_model(tensors=TEXT_IN + TEXT_OUT.replace("answer", "text")),
        line=4,
    ),
    Example(
        "TL410",
        says="input 'x' of 'm' reshapes dims [2, 3] to [4]",
        fails=python_model(tensors='input { name: "x" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: 4 } }\n'),
        passes=python_model(
            tensors='input { name: "x" data_type: TYPE_FP32\n'
            "dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] } }\n"
        ),
    ),
    Example(
        "TL410",
        says="output 'y' of 'm' reshapes dims [1] to []",
        fails=python_model(tensors='output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { } }\n'),
        passes=python_model(BATCHING, tensors='output { name: "y" data_type: TYPE_FP32 dims: [ 1 ] reshape { } }\n'),
    ),
    Example(
        "TL411",
        says="max_batch_size of 'm' is -1",
        fails=python_model("max_batch_size: -1\n"),
        passes=python_model("max_batch_size: 0\n"),
        line=5,
    ),
    Example(
        "TL411",
        says="count of instance_group 0 of 'm' is -2",
        severity=Severity.WARNING,
        fails=python_model("instance_group { count: -2 kind: KIND_CPU }\n"),
        passes=python_model("instance_group { count: 2 kind: KIND_CPU }\n"),
    ),
    Example(
        "TL414",
        says="instance_group 0 of 'm' is KIND_GPU, and this machine has no NVIDIA GPU",
        fails=python_model("instance_group { kind: KIND_GPU }\n"),
        passes=python_model("instance_group { kind: KIND_AUTO }\n"),
        line=5,
        gpus=0,
    ),
    Example(
        "TL412",
        says="metric_control 0 of 'm' has no buckets",
        fails=python_model('model_metrics { metric_control { metric_identifier { family: "f" } } }\n'),
        passes=python_model(
            'model_metrics { metric_control { metric_identifier { family: "f" }\n'
            "histogram_options { buckets: [ 1, 5 ] } } }\n"
        ),
        line=5,
    ),
    Example(
        "TL413",
        says="input 'x' of 'm' has allow_ragged_batch, but max_batch_size is 0",
        fails=python_model(tensors='input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }\n'),
        passes=python_model(
            BATCHING, tensors='input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }\n'
        ),
    ),
)
