"""The rungs that a profile serves, and what of their configuration explains their figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tools.bootstrap.layout import Layout
from tools.client.request import Target
from tools.client.rungs import LADDER, Rung
from tools.planning.architecture import Architecture, architecture_of
from tools.planning.errors import PlanningError
from tools.planning.weights import count
from tools.reporting.errors import ReportError
from tools.spec.limits import GoldenInterval
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVariant, VllmVariant


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RungFacts(_Record):
    """One rung as it is configured.

    Attributes:
        target: model:version.
        weights: path of its weights in the profile; `weights_bytes` of their safetensors files, None where they are
            not on this machine.
        batch: most requests that are generated together.
        draft_tokens: tokens of a draft in speculative decoding, 0 without.
        synthetic_length: the acceptance length that the engine makes up, whatever was drafted; None for a real one.
        reserved_memory: what the engine sets aside for its KV cache before the first request, in words.
    """

    label: str
    target: str
    adds: str
    engine: Literal["transformers", "vllm"]
    weights: str
    weights_bytes: int | None
    quantised: bool
    attention: str
    batch: int
    draft_tokens: int = 0
    synthetic_length: float | None = None
    golden_interval: GoldenInterval | None = None
    reserved_memory: str = ""

    @property
    def parsed_target(self) -> Target:
        return Target.parse(self.target)


class ModelSizes(_Record):
    """What a token's arithmetic is made of. `matrix_weights`: of all layers and the output matrix."""

    matrix_weights: int
    layers: int
    attention_width: int

    @classmethod
    def of(cls, architecture: Architecture) -> ModelSizes:
        output = architecture.hidden_size * architecture.vocab_size
        return cls(
            matrix_weights=count(architecture).linear + output,
            layers=architecture.num_hidden_layers,
            attention_width=architecture.num_attention_heads * architecture.head_dim,
        )

    def attention_percent(self, context: int) -> float:
        """Share of attention in a token's multiplications, with `context` tokens before it.

        Each layer multiplies the query with every key and every score with every value, `context` times
        `attention_width` each; a matrix takes one multiplication a weight.
        """
        attention = self.layers * 2 * context * self.attention_width
        return 100 * attention / (attention + self.matrix_weights)


def rungs_of(profile: Profile, layout: Layout, wanted: Collection[str] = ()) -> list[RungFacts]:
    """The profile's rungs, lowest first; only the `wanted` labels, when there are any.

    Raises ReportError for a label that the profile does not serve.
    """
    served = {rung.label: rung for rung in LADDER if _serves(profile, rung)}
    unknown = [label for label in wanted if label not in served]
    if unknown:
        raise ReportError(
            f'profile "{profile.name}" serves no rung "{unknown[0]}": it has {", ".join(served) or "none"}'
        )
    if not served:
        raise ReportError(f'profile "{profile.name}" serves no rung of the ladder: there is nothing to compare')
    return [_facts(profile, rung, layout) for label, rung in served.items() if not wanted or label in wanted]


def sizes_of(profile: Profile, layout: Layout) -> ModelSizes | None:
    """Sizes of the served model; None where neither its config.json nor the profile states them."""
    path = profile.artifacts.bf16.path
    try:
        return ModelSizes.of(architecture_of(profile.model, layout.home / path, path))
    except PlanningError:
        return None


def same_weights_below(rung: RungFacts, rungs: Collection[RungFacts]) -> RungFacts | None:
    """What a rung that drafts has to be held against: the highest one with the same engine and weights, no drafts.

    None for other rungs, and where there is none.
    """
    if not rung.draft_tokens:
        return None
    alike = (
        other for other in rungs if (other.engine, other.weights, other.draft_tokens) == (rung.engine, rung.weights, 0)
    )
    return max(alike, key=lambda other: other.label, default=None)


def _serves(profile: Profile, rung: Rung) -> bool:
    variant = profile.enabled_variants.get(rung.target.model)
    return variant is not None and rung.target.version in (variant.load_versions or variant.versions)


def _facts(profile: Profile, rung: Rung, layout: Layout) -> RungFacts:
    variant, version = profile.variants[rung.target.model], rung.target.version
    assert version is not None
    if isinstance(variant, BaselineVariant):
        written = variant.versions[version]
        return RungFacts(
            label=rung.label,
            target=str(rung.target),
            adds=rung.adds,
            engine="transformers",
            weights=written.model,
            weights_bytes=_weights_bytes(layout.home / written.model),
            quantised=False,
            attention=written.attention,
            batch=variant.dynamic_batching.max_batch_size if written.batching else 1,
        )
    return _vllm_facts(profile, rung, variant, layout)


def _vllm_facts(profile: Profile, rung: Rung, variant: VllmVariant, layout: Layout) -> RungFacts:
    assert rung.target.version is not None
    arguments = variant.versions[rung.target.version]
    speculative = arguments.get("speculative_config")
    speculative = speculative if isinstance(speculative, dict) else {}
    drafts, length = speculative.get("num_speculative_tokens"), speculative.get("synthetic_acceptance_length")
    weights, batch = str(arguments["model"]), arguments.get("max_num_seqs")
    awq = profile.artifacts.awq
    return RungFacts(
        label=rung.label,
        target=str(rung.target),
        adds=rung.adds,
        engine="vllm",
        weights=weights,
        weights_bytes=_weights_bytes(layout.home / weights),
        quantised=awq is not None and weights == awq.path,
        attention="paged",
        # vLLM's own default where the profile leaves it out.
        batch=batch if isinstance(batch, int) else 256,
        draft_tokens=drafts if isinstance(drafts, int) else 0,
        synthetic_length=length if isinstance(length, int | float) else None,
        golden_interval=variant.golden_interval,
        reserved_memory=_reserved(profile, variant, arguments.get("gpu_memory_utilization")),
    )


def _reserved(profile: Profile, variant: VllmVariant, utilization: object) -> str:
    if profile.target.accelerator == "cuda":
        return f"{utilization} of the GPU's memory" if utilization is not None else "vLLM's default share of the GPU"
    gib = profile.environment_of(variant).get("VLLM_CPU_KVCACHE_SPACE")
    return f"{gib} GiB of KV cache" if gib else "a KV cache of vLLM's default size"


def _weights_bytes(folder: Path) -> int | None:
    return sum(_sizes(folder)) or None


def _sizes(folder: Path) -> Iterator[int]:
    for file in folder.glob("*.safetensors"):
        yield file.stat().st_size
