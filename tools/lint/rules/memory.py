"""The rule on GPU memory: engines that one server loads together must fit one GPU together."""

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
