"""What can be said about vLLM's engine arguments from the profile alone, without vLLM.

Whether each key is one vLLM knows depends on the vLLM that is installed: the lint asks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from .model import Artifacts, ServedModel, Target

# Flags of vLLM 0: they became keys of the object `speculative_config`.
_REMOVED_SPECULATIVE = ("speculative_model", "num_speculative_tokens", "speculative_draft_tensor_parallel_size")


def check_engine_arguments(
    where: str, arguments: Mapping[str, JsonValue], model: ServedModel, artifacts: Artifacts, target: Target
) -> Iterator[str]:
    """Yield what is wrong with `arguments`, each sentence naming `where`."""
    for problem in (
        *_model_problems(arguments, artifacts),
        *_length_problems(arguments, model),
        *_awq_problems(arguments, artifacts),
        *_speculation_problems(arguments, artifacts),
        *_device_problems(arguments, target),
        *_statistics_problems(arguments),
    ):
        yield f"{where}: {problem}"


def _model_problems(arguments: Mapping[str, JsonValue], artifacts: Artifacts) -> Iterator[str]:
    path = arguments.get("model")
    if path not in artifacts.targets:
        yield f'"model" {path!r} is none of the artifacts\' paths ({", ".join(artifacts.targets)})'


def _length_problems(arguments: Mapping[str, JsonValue], model: ServedModel) -> Iterator[str]:
    for key in ("max_model_len", "max_num_seqs"):
        value = arguments.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            yield f'"{key}" is {value!r}: write a whole number, 1 or more'
    length = arguments.get("max_model_len")
    if isinstance(length, int) and length > model.context_length:
        yield f'"max_model_len" {length} is over "model.context_length" {model.context_length}'


def _awq_problems(arguments: Mapping[str, JsonValue], artifacts: Artifacts) -> Iterator[str]:
    serves_awq = artifacts.awq is not None and arguments.get("model") == artifacts.awq.path
    quantization = arguments.get("quantization")
    if (serves_awq or quantization in ("awq", "awq_marlin")) and arguments.get("dtype") == "bfloat16":
        yield '"dtype" is "bfloat16", but AWQ\'s kernels compute in float16: set "float16"'
    if quantization == "awq":
        yield '"quantization" is "awq": remove it, vLLM then detects AWQ and picks the faster Marlin kernel'


def _speculation_problems(arguments: Mapping[str, JsonValue], artifacts: Artifacts) -> Iterator[str]:
    for key in _REMOVED_SPECULATIVE:
        if key in arguments:
            yield f'"{key}" was removed from vLLM: put "method", "model" and the number into "speculative_config"'
    config = arguments.get("speculative_config")
    if config is None:
        return
    if not isinstance(config, dict):
        yield f'"speculative_config" is {config!r}: write a mapping with "method", "model", "num_speculative_tokens"'
        return
    draft = artifacts.draft
    if config.get("method") in ("eagle", "eagle3") and (draft is None or config.get("model") != draft.path):
        yield (
            f'"speculative_config.model" {config.get("model")!r} is not "artifacts.draft.path": '
            "name the head there, so that its sizes are checked against the target's"
        )
    elif draft is not None and config.get("model") == draft.path and config.get("method") != draft.method:
        yield (
            f'"speculative_config.method" is {config.get("method")!r}, but "artifacts.draft.method" is "{draft.method}"'
        )


def _device_problems(arguments: Mapping[str, JsonValue], target: Target) -> Iterator[str]:
    needed = 1
    for key in ("tensor_parallel_size", "pipeline_parallel_size"):
        degree = arguments.get(key, 1)
        if isinstance(degree, int) and not isinstance(degree, bool) and degree > 0:
            needed *= degree
        else:
            yield f'"{key}" is {degree!r}: write a whole number, 1 or more'
    if target.accelerator == "cuda" and needed > target.gpus:
        yield f"needs {needed} GPUs (tensor times pipeline parallel), the target has {target.gpus}"
    utilization = arguments.get("gpu_memory_utilization")
    if utilization is None:
        return
    if not isinstance(utilization, int | float) or isinstance(utilization, bool) or not 0 < utilization <= 1:
        yield f'"gpu_memory_utilization" is {utilization!r}: write a share over 0 and up to 1'


def _statistics_problems(arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    if arguments.get("disable_log_stats") is not False:
        yield 'set "disable_log_stats" to false: the metrics are fed from vLLM\'s statistics'
