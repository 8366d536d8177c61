"""The rules on GPU memory: engines that one server loads together must fit one GPU together, drafts counted in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tools.lint.engines import Engine, engines_of
from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace

_MOST = 1024
"""GPUs of one engine, and instances of one group, that are counted: a slip of the pen must not take for ever."""


@dataclass(frozen=True, slots=True)
class _Share:
    """One engine's claim on one GPU."""

    engine: Engine
    fraction: float
    is_default: bool

    def __str__(self) -> str:
        default = " (vLLM's default)" if self.is_default else ""
        return f"{self.engine.label} {self.fraction:g}{default}"


@rule(
    "TL721",
    "gpu-memory-oversubscribed",
    Scope.WORKSPACE,
    Severity.ERROR,
    reason="gpu_memory_utilization is each engine's share of the whole GPU, not of what others left.",
    fix="Lower 'gpu_memory_utilization' in model.json until the sum is at most 1, or use more GPUs.",
)
def gpu_memory_oversubscribed(workspace: Workspace) -> Iterator[Problem]:
    shares: dict[int, list[_Share]] = defaultdict(list)
    for model in workspace.models:
        for gpu, share in _shares(model):
            shares[gpu].append(share)
    reported: set[tuple[str, ...]] = set()
    for gpu, claims in sorted(shares.items()):
        total = sum(claim.fraction for claim in claims)
        who = tuple(str(claim) for claim in claims)
        if len(claims) > 1 and total > 1 + 1e-9 and who not in reported:
            reported.add(who)  # tensor-parallel neighbours share all their GPUs: one finding is enough
            message = f"engines on GPU {gpu} claim {total:g} of its memory: {', '.join(who)}"
            yield Problem(message, claims[-1].engine.at("gpu_memory_utilization"))


@rule(
    "TL722",
    "draft-memory-not-budgeted",
    Scope.WORKSPACE,
    Severity.WARNING,
    reason="A draft's weights and KV cache take GPU memory too: a budget without them ends out of memory.",
    fix="Raise 'gpu_memory_utilization' by the draft's memory, or lower 'max_num_seqs'.",
)
def draft_memory_not_budgeted(workspace: Workspace) -> Iterator[Problem]:
    engines = [engine for model in workspace.models for engine in engines_of(model)]
    for engine in engines:
        if engine.speculation is None or not engine.speculation.draft:
            continue
        who = f"{engine.label} loads the draft '{engine.speculation.draft}'"
        if "kv_cache_memory_bytes" in engine.arguments:
            message = f"{who} and fixes 'kv_cache_memory_bytes', to which vLLM adds the draft's weights uncounted"
            fix = "Set 'gpu_memory_utilization' instead: vLLM then gives the KV cache what target and draft leave."
            yield Problem(message, engine.at("kv_cache_memory_bytes"), fix)
        elif twin := next((other for other in engines if _same_budget(engine, other)), None):
            message = f"{who} within the same share of the GPU ({engine.gpu_memory_utilization:g}) as {twin.label}"
            yield Problem(f"{message}, which loads none", engine.at("gpu_memory_utilization"))


def _same_budget(drafting: Engine, other: Engine) -> bool:
    """Whether `other` serves the same target without a draft, in as much memory and for no more sequences."""
    return (
        other.speculation is None
        and "gpu_memory_utilization" in other.arguments
        and other.arguments.get("gpu_memory_utilization") == drafting.arguments.get("gpu_memory_utilization")
        and other.text("model") == drafting.text("model")
        and other.arguments.get("quantization") == drafting.arguments.get("quantization")
        and other.whole("max_num_seqs", 0) <= drafting.whole("max_num_seqs", 0)
    )


def _shares(model: Model) -> Iterator[tuple[int, _Share]]:
    """(GPU, share) of every engine instance that the model's loaded versions start."""
    loaded = model.loaded_versions
    for engine in engines_of(model):
        if engine.version not in loaded or engine.document is None or engine.document.object is None:
            continue
        if "kv_cache_memory_bytes" in engine.arguments:
            continue  # sized in bytes: the fraction is not used
        share = _Share(engine, engine.gpu_memory_utilization, "gpu_memory_utilization" not in engine.arguments)
        for gpu in _gpus(model, engine):
            yield gpu, share


def _gpus(model: Model, engine: Engine) -> Iterator[int]:
    """The GPUs each instance takes, one entry per instance and GPU; without 'gpus' from the first visible one on."""
    groups = model.config.instance_groups
    spanned = range(min(engine.gpus_per_instance, _MOST))
    if not groups:
        yield from spanned
    for group in groups:
        if group.kind == "KIND_CPU":
            continue
        for _ in range(min(group.instances_per_device, _MOST)):
            yield from group.gpus or spanned
