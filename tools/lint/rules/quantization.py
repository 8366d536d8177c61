"""Rules on AWQ checkpoints: what their config.json says against what model.json asks for."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.artifacts import Artifact
from tools.lint.engines import Engine
from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Workspace

_AWQ_METHODS = {"awq", "awq_marlin", "auto_awq"}


def _uses_awq(engine: Engine) -> bool:
    """As asked for, as the checkpoint's config says, or, for a checkpoint that is not here, as its name says."""
    if engine.target is not None:
        return engine.target.quantization.get("quant_method") == "awq"
    return engine.text("quantization").lower() in _AWQ_METHODS or "awq" in engine.text("model").lower()


@rule(
    "TL701",
    "awq-bfloat16",
    Scope.ENGINE,
    Severity.WARNING,
    reason="AWQ's own kernels compute in float16: with bfloat16 older vLLM does not start, newer vLLM converts.",
    fix='Set "dtype": "float16".',
)
def awq_bfloat16(engine: Engine, _: Workspace) -> Iterator[Problem]:
    if not _uses_awq(engine):
        return
    asked = engine.text("dtype") or "auto"
    weights = engine.target.weights_dtype if engine.target is not None else ""
    if asked == "bfloat16":
        message = f"{engine.label} runs an AWQ checkpoint in bfloat16"
        # The plain kernel that 'awq' forces knows nothing but float16.
        severity = Severity.ERROR if engine.text("quantization").lower() == "awq" else None
        yield Problem(message, engine.at("dtype"), severity=severity)
    elif asked == "auto" and weights == "bfloat16":
        yield Problem(
            f"{engine.label} leaves dtype to an AWQ checkpoint whose config says bfloat16", engine.at("dtype")
        )


@rule(
    "TL702",
    "awq-forced",
    Scope.ENGINE,
    Severity.WARNING,
    reason="Left alone, vLLM picks the Marlin kernel on CUDA; forced, many releases keep to one several times slower.",
    fix="Remove 'quantization': vLLM reads it from the checkpoint.",
)
def awq_forced(engine: Engine, _: Workspace) -> Iterator[Problem]:
    if engine.text("quantization").lower() == "awq":
        yield Problem(f"{engine.label} forces quantization 'awq'", engine.at("quantization"))


@rule(
    "TL703",
    "awq-group-size",
    Scope.ENGINE,
    Severity.ERROR,
    reason="A layer's input, split by tensor parallelism, must be a whole number of quantization groups.",
    fix="Quantize with a smaller group size, or lower tensor_parallel_size.",
)
def awq_group_size(engine: Engine, _: Workspace) -> Iterator[Problem]:
    target = engine.target
    if target is None or not _uses_awq(engine):
        return
    group = target.quantization.get("group_size", target.quantization.get("q_group_size"))
    if not isinstance(group, int) or group <= 0:
        return
    size = max(1, engine.whole("tensor_parallel_size", 1))
    split = f" / tensor_parallel_size {size}" if size > 1 else ""
    for label, width, divisor in _layer_inputs(target, size):
        if width % divisor or (width // divisor) % group:
            shown = f"{label} {width}{split if divisor > 1 else ''}"
            message = f"AWQ group size {group} of '{engine.text('model')}' does not divide {shown}"
            yield Problem(message, engine.at("tensor_parallel_size" if divisor > 1 else "model"))


def _layer_inputs(target: Artifact, tensor_parallel_size: int) -> Iterator[tuple[str, int, int]]:
    """(name, input size, parts it is split into) of a transformer's layers.

    q, k, v, gate and up are split along their output and see the whole hidden size, down and o along their input.
    """
    hidden, intermediate = target.integer("hidden_size"), target.integer("intermediate_size")
    heads = target.integer("num_attention_heads")
    if hidden is not None:
        yield "hidden_size", hidden, 1
    if intermediate is not None:
        yield "intermediate_size", intermediate, tensor_parallel_size
    if hidden is not None and heads and tensor_parallel_size > 1:
        head_dim = target.integer("head_dim") or hidden // heads
        yield "attention width", heads * head_dim, tensor_parallel_size


@rule(
    "TL704",
    "quantization-mismatch",
    Scope.ENGINE,
    Severity.ERROR,
    reason="vLLM refuses a 'quantization' that the checkpoint's config.json contradicts.",
    fix="Remove 'quantization': vLLM reads it from the checkpoint.",
)
def quantization_mismatch(engine: Engine, _: Workspace) -> Iterator[Problem]:
    asked = engine.text("quantization").lower()
    target = engine.target
    if target is None or asked not in _AWQ_METHODS | {"gptq", "gptq_marlin", "auto_gptq"}:
        return
    family = "awq" if asked in _AWQ_METHODS else "gptq"
    stored = target.quantization.get("quant_method") or "no quantization"
    if stored != family:
        message = f"{engine.label} asks for '{asked}', but config.json of '{engine.text('model')}' has {stored}"
        yield Problem(message, engine.at("quantization"))
