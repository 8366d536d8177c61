"""Rules on a config.pbtxt by itself, whatever the backend: what the server's own validation refuses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace
from tools.lint.schema import Tensor


@rule(
    "TL401",
    "backend-missing",
    Scope.MODEL,
    Severity.ERROR,
    reason="The server must know which backend loads the model.",
    fix="Write 'backend: \"...\"', or 'platform: \"ensemble\"' for an ensemble.",
)
def backend_missing(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.config_file is None or not model.is_understood or model.config.ensemble is not None:
        return
    config = model.config
    if not config.backend and config.platform != "ensemble" and model.backend is None:
        named = (
            f"platform '{config.platform}' is unknown" if config.platform else "neither 'backend' nor 'platform' is set"
        )
        yield Problem(f"model '{model.name}': {named}, and its files do not tell", model.at("platform"))


@rule(
    "TL402",
    "gpus-without-kind-gpu",
    Scope.MODEL,
    Severity.ERROR,
    reason="'gpus' belongs to KIND_GPU; with KIND_CPU or KIND_MODEL Triton refuses to load the model.",
    fix="Remove 'gpus', or use KIND_GPU. With KIND_MODEL the devices are chosen by CUDA_VISIBLE_DEVICES.",
)
def gpus_without_kind_gpu(model: Model, _: Workspace) -> Iterator[Problem]:
    for index, group in enumerate(model.config.instance_groups):
        if group.gpus and group.kind in {"KIND_CPU", "KIND_MODEL"}:
            message = f"instance_group {index} of '{model.name}' is {group.kind} but lists gpus {list(group.gpus)}"
            yield Problem(message, model.at("instance_group", index, "gpus"))


@rule(
    "TL403",
    "preferred-batch-size",
    Scope.MODEL,
    Severity.ERROR,
    reason="Preferred batch sizes must lie between 1 and max_batch_size.",
    fix="Raise max_batch_size or drop the size.",
)
def preferred_batch_size(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    sizes = config.dynamic_batching.preferred_batch_size if config.dynamic_batching else ()
    groups = (
        (sizes, ("dynamic_batching", "preferred_batch_size")),
        (config.sequence_preferred_batch_size, ("sequence_batching", "oldest", "preferred_batch_size")),
    )
    for values, fields in groups:
        bad = [size for size in values if size <= 0 or size > config.max_batch_size]
        if bad:
            listed = ", ".join(map(str, bad))
            limit = config.max_batch_size
            message = f"preferred_batch_size {listed} of '{model.name}' is outside 1 .. max_batch_size {limit}"
            yield Problem(message, model.at(*fields))


@rule(
    "TL404",
    "priority-level",
    Scope.MODEL,
    Severity.ERROR,
    reason="Priorities run from 1, the highest, to priority_levels; default_priority_level must be one of them.",
    fix="Set default_priority_level and the keys of priority_queue_policy within the range.",
)
def priority_level(model: Model, _: Workspace) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    if batching is None or batching.priority_levels == 0:
        return
    allowed = f"1 .. {batching.priority_levels}"
    if not 1 <= batching.default_priority_level <= batching.priority_levels:
        message = f"default_priority_level {batching.default_priority_level} of '{model.name}' is outside {allowed}"
        yield Problem(message, model.at("dynamic_batching", "default_priority_level"))
    for level in batching.priority_queue_policy:
        if not 1 <= level <= batching.priority_levels:
            message = f"priority_queue_policy of '{model.name}' has level {level}, outside {allowed}"
            yield Problem(message, model.at("dynamic_batching", "priority_queue_policy"))


@rule(
    "TL405",
    "preserve-ordering",
    Scope.MODEL,
    Severity.ERROR,
    reason="Responses cannot keep the order of requests that are reordered by priority or delayed by a timeout.",
    fix="Drop preserve_ordering, or use one priority level and timeout_action REJECT.",
)
def preserve_ordering(model: Model, _: Workspace) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    if batching is None or not batching.preserve_ordering:
        return
    place = model.at("dynamic_batching", "preserve_ordering")
    if batching.priority_levels > 1:
        yield Problem(
            f"preserve_ordering of '{model.name}' stands beside {batching.priority_levels} priority levels", place
        )
    if any(policy.delays and policy.default_timeout_microseconds for policy in batching.queue_policies):
        yield Problem(f"preserve_ordering of '{model.name}' stands beside timeout_action DELAY", place)


@rule(
    "TL406",
    "response-cache",
    Scope.MODEL,
    Severity.ERROR,
    reason="The response cache holds one response per request; Triton refuses it for decoupled and sequence models.",
    fix="Remove response_cache.",
)
def response_cache(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.response_cache and (model.is_decoupled or config.sequence_batching):
        why = "decoupled" if model.is_decoupled else "scheduled by sequence_batching"
        yield Problem(f"response_cache is enabled for '{model.name}', which is {why}", model.at("response_cache"))


@rule(
    "TL407",
    "batching-without-batch",
    Scope.MODEL,
    Severity.WARNING,
    reason="With max_batch_size 0 there is no batch dimension: dynamic_batching queues, but never batches.",
    fix="Set max_batch_size, or remove dynamic_batching where no queue policy is wanted either.",
)
def batching_without_batch(model: Model, _: Workspace) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    if batching is None or model.config.max_batch_size != 0 or model.is_vllm:
        return
    wants_queue = batching.priority_levels or any(policy.limits_anything for policy in batching.queue_policies)
    if not wants_queue and not batching.preferred_batch_size:
        yield Problem(f"'{model.name}' has dynamic_batching but max_batch_size 0", model.at("dynamic_batching"))


@rule(
    "TL408",
    "tensor-incomplete",
    Scope.MODEL,
    Severity.ERROR,
    reason="Every input and output needs a name, a data_type and dims of 1 or more, or -1.",
    fix="Write all three; a scalar has dims [ 1 ].",
)
def tensor_incomplete(model: Model, _: Workspace) -> Iterator[Problem]:
    for field, tensors in (("input", model.config.inputs), ("output", model.config.outputs)):
        for index, tensor in enumerate(tensors):
            for fault in _tensor_faults(tensor):
                yield Problem(f"{field} '{tensor.name or index}' of '{model.name}' {fault}", model.at(field, index))


def _tensor_faults(tensor: Tensor) -> Iterator[str]:
    if not tensor.name:
        yield "has no name"
    if tensor.data_type == "TYPE_INVALID":
        yield "has no data_type"
    if not tensor.dims:
        yield "has no dims"
    bad = [dim for dim in (*tensor.dims, *(tensor.reshape or ())) if dim < 1 and dim != -1]
    if bad:
        yield f"has dimension {bad[0]}; allowed are 1 and more, and -1 for any size"


@rule(
    "TL409",
    "tensor-name-twice",
    Scope.MODEL,
    Severity.WARNING,
    reason="Triton loads a config with two inputs or two outputs of one name, and one of them is lost.",
    fix="Remove or rename one.",
)
def tensor_name_twice(model: Model, _: Workspace) -> Iterator[Problem]:
    for field, tensors in (("input", model.config.inputs), ("output", model.config.outputs)):
        counts = Counter(tensor.name for tensor in tensors if tensor.name)
        for name, count in counts.items():
            if count > 1:
                last = max(index for index, tensor in enumerate(tensors) if tensor.name == name)
                yield Problem(f"{field} '{name}' of '{model.name}' is defined {count} times", model.at(field, last))


@rule(
    "TL410",
    "reshape",
    Scope.MODEL,
    Severity.ERROR,
    reason="'reshape' must keep the number of elements.",
    fix="Give 'reshape' the same number of elements as 'dims', with as many -1.",
)
def reshape(model: Model, _: Workspace) -> Iterator[Problem]:
    for field, tensors in (("input", model.config.inputs), ("output", model.config.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor.reshape is None or any(dim == 0 for dim in (*tensor.dims, *tensor.reshape)):
                continue
            empty_without_batch = not tensor.reshape and model.config.max_batch_size == 0
            if empty_without_batch or _element_runs(tensor.dims) != _element_runs(tensor.reshape):
                shapes = f"dims {list(tensor.dims)} to {list(tensor.reshape)}"
                yield Problem(
                    f"{field} '{tensor.name}' of '{model.name}' reshapes {shapes}", model.at(field, index, "reshape")
                )


def _element_runs(dims: tuple[int, ...]) -> list[int]:
    """Element counts of the stretches between variable dimensions: [2, 4, -1, 6] and [8, -1, 1, 6] agree."""
    runs: list[list[int]] = [[]]
    for dim in dims:
        if dim == -1:
            runs.append([])
        else:
            runs[-1].append(dim)
    return [math.prod(run) for run in runs]


@rule(
    "TL411",
    "negative-count",
    Scope.MODEL,
    Severity.ERROR,
    reason="Triton refuses a negative max_batch_size, and takes a negative instance count for 1 without a word.",
    fix="Use 0 for no batch dimension, 1 for a single instance.",
)
def negative_count(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.config.max_batch_size < 0:
        yield Problem(f"max_batch_size of '{model.name}' is {model.config.max_batch_size}", model.at("max_batch_size"))
    for index, group in enumerate(model.config.instance_groups):
        if group.count < 0:
            message = f"count of instance_group {index} of '{model.name}' is {group.count}"
            yield Problem(message, model.at("instance_group", index, "count"), severity=Severity.WARNING)


@rule(
    "TL412",
    "metric-control",
    Scope.MODEL,
    Severity.ERROR,
    reason="A metric_control needs the metric's family and its histogram's buckets, or the model does not load.",
    fix="Write metric_identifier { family: ... } and histogram_options { buckets: [ ... ] }.",
)
def metric_control(model: Model, _: Workspace) -> Iterator[Problem]:
    for index, control in enumerate(model.config.metric_controls):
        if not control.family or not control.buckets:
            missing = "buckets" if control.family else "family"
            message = f"metric_control {index} of '{model.name}' has no {missing}"
            yield Problem(message, model.at("model_metrics", 0, "metric_control", index))


@rule(
    "TL413",
    "ragged-without-batching",
    Scope.MODEL,
    Severity.WARNING,
    reason="Without a batch dimension no requests are put together, so there is nothing ragged to allow.",
    fix="Set max_batch_size, or remove allow_ragged_batch.",
)
def ragged_without_batching(model: Model, _: Workspace) -> Iterator[Problem]:
    for index, tensor in enumerate(model.config.inputs):
        if tensor.allow_ragged_batch and model.config.max_batch_size == 0:
            message = f"input '{tensor.name}' of '{model.name}' has allow_ragged_batch, but max_batch_size is 0"
            yield Problem(message, model.at("input", index, "allow_ragged_batch"))


@rule(
    "TL414",
    "kind-gpu-without-gpu",
    Scope.MODEL,
    Severity.NOTE,
    reason="A server without a GPU refuses a model of KIND_GPU.",
    fix="Nothing, if the model is meant for another machine; otherwise use KIND_CPU, or KIND_AUTO to suit both.",
)
def kind_gpu_without_gpu(model: Model, workspace: Workspace) -> Iterator[Problem]:
    for index, group in enumerate(model.config.instance_groups):
        if group.kind == "KIND_GPU" and workspace.gpus == 0:
            message = f"instance_group {index} of '{model.name}' is KIND_GPU, and this machine has no NVIDIA GPU"
            yield Problem(message, model.at("instance_group", index, "kind"))
