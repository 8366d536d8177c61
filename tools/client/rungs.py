"""The rungs of the ladder: which model answers for each, and what it adds to the one below."""

from collections.abc import Iterable
from dataclasses import dataclass

from tools.client.request import Target


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of optimisation. The same request goes to every rung; only the target changes."""

    label: str
    target: Target
    adds: str


LADDER: tuple[Rung, ...] = (
    Rung("v0", Target("llm_baseline", 1), "transformers generate, eager attention, one request at a time"),
    Rung("v1", Target("llm_baseline", 2), "FlashAttention-2 (sdpa without it)"),
    Rung("v1b", Target("llm_baseline", 3), "Triton's dynamic batching"),
    Rung("v2", Target("llm_bf16", 1), "vLLM: paged KV cache, continuous batching"),
    Rung("v3", Target("llm_awq", 1), "AWQ, 4-bit weights"),
    Rung("v4", Target("llm_eagle", 1), "EAGLE-3 speculative decoding"),
)
# No optimisation of its own: it hands each request to a version that its release file names.
ROUTER = Rung("v5", Target("chat", 1), "weighted release: one version answers")


def rungs_among(ready: Iterable[Target]) -> list[Rung]:
    """The rungs whose model and version are among the ready targets, lowest first."""
    served = set(ready)
    return [rung for rung in LADDER if rung.target in served]


def rung_of(target: Target) -> Rung | None:
    """The rung that a model and version stand for; None for ensembles and other models."""
    return next((rung for rung in LADDER if rung.target == target), None)
