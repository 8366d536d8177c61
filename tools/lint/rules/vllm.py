"""Rules on the config.pbtxt of a model with backend vllm."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.backends import VLLM_CONTRACT
from tools.lint.engines import engines_of, plain_name
from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace

_BACKEND_PARAMETERS = ("REPORT_CUSTOM_METRICS", "ENABLE_VLLM_HEALTH_CHECK")
_USUAL_ARGUMENTS = frozenset(
    {"model", "tokenizer", "quantization", "dtype", "max_model_len", "max_num_seqs", "gpu_memory_utilization"}
    | {"tensor_parallel_size", "pipeline_parallel_size", "enforce_eager", "speculative_config", "speculative_model"}
)
"""Engine arguments to recognise even where no vLLM is installed."""


@rule(
    "TL501",
    "vllm-max-batch-size",
    Scope.MODEL,
    Severity.ERROR,
    reason="vLLM batches continuously and has no batch dimension: its backend insists on max_batch_size 0.",
    fix="Set max_batch_size to 0 and bound the batch with 'max_num_seqs' in model.json.",
)
def vllm_max_batch_size(model: Model, _: Workspace) -> Iterator[Problem]:
    size = model.config.max_batch_size
    if model.is_vllm and size > 0:
        yield Problem(f"'{model.name}' has backend vllm and max_batch_size {size}", model.at("max_batch_size"))


@rule(
    "TL502",
    "vllm-dynamic-batching",
    Scope.MODEL,
    Severity.WARNING,
    reason="The vLLM backend takes every request at once: in Triton's queue nothing batches, waits or times out.",
    fix="Remove dynamic_batching; bound waiting requests in the backend or in front of Triton.",
)
def vllm_dynamic_batching(model: Model, _: Workspace) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    if not model.is_vllm or batching is None:
        return
    limits = batching.priority_levels or any(policy.limits_anything for policy in batching.queue_policies)
    effect = "its queue policy never applies" if limits else "it never gathers a batch"
    yield Problem(f"'{model.name}' has backend vllm and dynamic_batching; {effect}", model.at("dynamic_batching"))


@rule(
    "TL503",
    "vllm-not-decoupled",
    Scope.MODEL,
    Severity.ERROR,
    reason="The vLLM backend streams, so it refuses a model whose transaction policy is not decoupled.",
    fix="Write 'model_transaction_policy { decoupled: true }'.",
)
def vllm_not_decoupled(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.is_vllm and model.config.decoupled is False:
        place = model.at("model_transaction_policy", 0, "decoupled")
        yield Problem(f"'{model.name}' has backend vllm but its transaction policy is not decoupled", place)


@rule(
    "TL504",
    "vllm-parallel-kind",
    Scope.MODEL,
    Severity.ERROR,
    reason="KIND_GPU pins an engine to one GPU, and KIND_AUTO becomes KIND_GPU: a parallel engine does not start.",
    fix="Use 'instance_group [ { count: 1 kind: KIND_MODEL } ]'.",
)
def vllm_parallel_kind(model: Model, _: Workspace) -> Iterator[Problem]:
    parallel = [engine for engine in engines_of(model) if engine.gpus_per_instance > 1]
    for index, group in enumerate(model.config.instance_groups):
        if parallel and group.kind in {"KIND_GPU", "KIND_AUTO"}:
            engine = parallel[0]
            message = (
                f"{engine.label} spans {engine.gpus_per_instance} GPUs, but instance_group {index} is {group.kind}"
            )
            yield Problem(message, model.at("instance_group", index, "kind"))


@rule(
    "TL505",
    "vllm-kind-auto",
    Scope.MODEL,
    Severity.WARNING,
    reason="KIND_AUTO is no promise of a GPU: without one, or when a listed GPU is missing, Triton takes KIND_CPU.",
    fix="Say what is meant: KIND_GPU with 'gpus' for one GPU, KIND_MODEL to leave the devices to vLLM.",
)
def vllm_kind_auto(model: Model, _: Workspace) -> Iterator[Problem]:
    parallel = any(engine.gpus_per_instance > 1 for engine in engines_of(model))
    for index, group in enumerate(model.config.instance_groups):
        if model.is_vllm and group.kind == "KIND_AUTO" and not parallel:
            written = "is KIND_AUTO" if model.writes("instance_group", index, "kind") else "names no kind, so KIND_AUTO"
            yield Problem(
                f"instance_group {index} of '{model.name}' {written}", model.at("instance_group", index, "kind")
            )


@rule(
    "TL506",
    "vllm-instances-share-gpu",
    Scope.MODEL,
    Severity.WARNING,
    reason="KIND_MODEL does not spread instances: every engine starts on the first visible GPU, each taking its share.",
    fix="Use count 1; for more engines use KIND_GPU with one entry in 'gpus' each, or more servers.",
)
def vllm_instances_share_gpu(model: Model, _: Workspace) -> Iterator[Problem]:
    shared = [(index, group) for index, group in enumerate(model.config.instance_groups) if group.kind == "KIND_MODEL"]
    instances = sum(group.instances_per_device for _, group in shared)
    if model.is_vllm and instances > 1:
        index = next((index for index, group in shared if group.count > 1), shared[-1][0])
        message = f"'{model.name}' has {instances} instances of KIND_MODEL, all on the same GPU"
        yield Problem(message, model.at("instance_group", index, "count"))


@rule(
    "TL507",
    "vllm-too-few-gpus",
    Scope.MODEL,
    Severity.ERROR,
    reason="A tensor-parallel engine needs tensor_parallel_size x pipeline_parallel_size GPUs.",
    fix="List as many GPUs (with KIND_MODEL: make them visible), or lower tensor_parallel_size.",
)
def vllm_too_few_gpus(model: Model, _: Workspace) -> Iterator[Problem]:
    for engine in engines_of(model):
        for index, group in enumerate(model.config.instance_groups):
            if group.gpus and engine.gpus_per_instance > len(group.gpus):
                needed = engine.gpus_per_instance
                message = f"{engine.label} needs {needed} GPUs, instance_group {index} lists {len(group.gpus)}"
                yield Problem(message, model.at("instance_group", index, "gpus"))


@rule(
    "TL508",
    "vllm-argument-in-parameters",
    Scope.MODEL,
    Severity.ERROR,
    reason="The vLLM backend takes engine arguments from <version>/model.json only; in config.pbtxt they do nothing.",
    fix="Move it to model.json of the version.",
)
def vllm_argument_in_parameters(model: Model, workspace: Workspace) -> Iterator[Problem]:
    installed = workspace.engine_arguments
    known = _USUAL_ARGUMENTS | (frozenset(installed.engine) if installed is not None else frozenset())
    for key, value in model.config.parameters.items() if model.is_vllm else ():
        if plain_name(key) in known:
            message = (
                f"parameter '{key}' (\"{value}\") of '{model.name}' is an engine argument, not read from config.pbtxt"
            )
            yield Problem(message, model.entry_at(key, "parameters"))


@rule(
    "TL509",
    "vllm-parameter-not-boolean",
    Scope.MODEL,
    Severity.WARNING,
    reason="The backend compares these parameters with the word 'true'; anything else is off.",
    fix='Write string_value: "true" or "false".',
)
def vllm_parameter_not_boolean(model: Model, _: Workspace) -> Iterator[Problem]:
    for key in _BACKEND_PARAMETERS:
        value = model.config.parameters.get(key) if model.is_vllm else None
        if value is not None and value.lower() not in {"true", "false"}:
            message = f"parameter '{key}' of '{model.name}' is \"{value}\", which counts as false"
            yield Problem(message, model.entry_at(key, "parameters"))


@rule(
    "TL510",
    "vllm-incomplete",
    Scope.MODEL,
    Severity.NOTE,
    reason="With --disable-auto-complete-config the backend adds nothing: what is not written is not there.",
    fix="Write the tensors of the backend's contract and 'model_transaction_policy { decoupled: true }', "
    "or start the server without --disable-auto-complete-config.",
)
def vllm_incomplete(model: Model, _: Workspace) -> Iterator[Problem]:
    if not model.is_vllm or model.config_file is None:
        return
    written = {tensor.name for tensor in (*model.config.inputs, *model.config.outputs)}
    missing = [name for name in ("text_input", "text_output") if name not in written]
    if model.config.decoupled is None:
        missing.append("model_transaction_policy")
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing)
        yield Problem(f"config.pbtxt of '{model.name}' leaves {listed} to auto-completion", model.at())


@rule(
    "TL511",
    "vllm-optional-tensor",
    Scope.MODEL,
    Severity.WARNING,
    reason="A tensor that the contract has as optional is required once the config lists it without 'optional: true'.",
    fix="Add 'optional: true'.",
)
def vllm_optional_tensor(model: Model, _: Workspace) -> Iterator[Problem]:
    optional = {tensor.name for tensor in VLLM_CONTRACT.inputs if tensor.optional}
    for index, tensor in enumerate(model.config.inputs if model.is_vllm else ()):
        if tensor.name in optional and not tensor.optional:
            message = f"input '{tensor.name}' of '{model.name}' is not marked optional, so every request must bring it"
            yield Problem(message, model.at("input", index))


@rule(
    "TL512",
    "vllm-tensor-type",
    Scope.MODEL,
    Severity.ERROR,
    reason="The backend reads and writes its tensors with fixed types and ranks.",
    fix="Write the type and dims of the backend's contract.",
)
def vllm_tensor_type(model: Model, _: Workspace) -> Iterator[Problem]:
    if not model.is_vllm:
        return
    pairs = (
        ("input", model.config.inputs, VLLM_CONTRACT.inputs),
        ("output", model.config.outputs, VLLM_CONTRACT.outputs),
    )
    for field, tensors, contract in pairs:
        expected = {tensor.name: tensor for tensor in contract}
        for index, tensor in enumerate(tensors):
            wanted = expected.get(tensor.name)
            if wanted is None or not tensor.dims or tensor.data_type == "TYPE_INVALID":
                continue
            what = f"{field} '{tensor.name}' of '{model.name}'"
            if tensor.data_type != wanted.data_type:
                message = f"{what} is {tensor.data_type}, the backend has {wanted.data_type}"
                yield Problem(message, model.at(field, index, "data_type"))
            elif len(tensor.dims) != len(wanted.dims):
                message = f"{what} has dims {list(tensor.dims)}, the backend {list(wanted.dims)}"
                yield Problem(message, model.at(field, index, "dims"))


@rule(
    "TL513",
    "vllm-rate-limiter",
    Scope.MODEL,
    Severity.WARNING,
    reason="The rate limiter bounds executions, and the vLLM backend's return at once: it limits nothing.",
    fix="Remove rate_limiter; bound running requests with 'max_num_seqs' in model.json.",
)
def vllm_rate_limiter(model: Model, _: Workspace) -> Iterator[Problem]:
    for index, group in enumerate(model.config.instance_groups):
        if model.is_vllm and group.rate_limited:
            message = (
                f"instance_group {index} of '{model.name}' has a rate_limiter, which vLLM's requests pass unhindered"
            )
            yield Problem(message, model.at("instance_group", index, "rate_limiter"))


@rule(
    "TL514",
    "vllm-custom-metrics-off",
    Scope.MODEL,
    Severity.WARNING,
    reason="REPORT_CUSTOM_METRICS reports what vLLM logs; 'disable_log_stats' in model.json switches that off.",
    fix="Set 'disable_log_stats' to false in model.json.",
)
def vllm_custom_metrics_off(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.config.parameters.get("REPORT_CUSTOM_METRICS", "").lower() != "true":
        return
    for engine in engines_of(model):
        if engine.flag("disable_log_stats"):
            yield Problem(
                f"{engine.label} disables the statistics that REPORT_CUSTOM_METRICS reports",
                engine.at("disable_log_stats"),
            )
