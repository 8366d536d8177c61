"""vLLM engines as the rules see them: one per version folder of a model, with what model.json says in vLLM's terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.lint.artifacts import Artifact
from tools.lint.findings import Place
from tools.lint.json_document import JsonDocument
from tools.lint.repository import Model, Version

DEFAULT_GPU_MEMORY_UTILIZATION = 0.9
"""vLLM's default for years; 0.32 takes 0.92. The lower one, so that no finding rests on the release."""

FLAT_SPECULATIVE_KEYS = {
    "speculative_model": "model",
    "num_speculative_tokens": "num_speculative_tokens",
    "speculative_draft_tensor_parallel_size": "draft_tensor_parallel_size",
    "speculative_model_quantization": "quantization",
    "speculative_max_model_len": "max_model_len",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
    "speculative_disable_by_batch_size": "",
    "speculative_disable_mqa_scorer": "",
    "speculative_draft_model": "model",
    "spec_decoding_acceptance_method": "",
    "typical_acceptance_sampler_posterior_threshold": "",
    "typical_acceptance_sampler_posterior_alpha": "",
    "disable_logprobs_during_spec_decoding": "",
}
"""vLLM V0's arguments, removed with it -> the key of `speculative_config` that took over; empty where nothing did."""


_SHORT_SPECULATIVE_KEYS = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}
"""Engine arguments that newer vLLM releases take beside `speculative_config`."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding as it is asked for, in the current or in the removed flat form."""

    method: str
    """As written, or derived from the draft's name as vLLM does; empty where neither says anything."""
    draft: str
    settings: Mapping[str, Any]
    draft_artifact: Artifact | None

    @property
    def is_head(self) -> bool:
        """True for heads trained on one target's hidden states, which fit that target alone."""
        return self.method in {"eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"}


@dataclass(frozen=True, slots=True)
class Engine:
    """One version of a vLLM model. `arguments` is empty where model.json is missing or broken."""

    model: Model
    version: Version
    document: JsonDocument | None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return f"'{self.model.name}' version {self.version.name}"

    def at(self, *keys: str | int) -> Place:
        """Where a key of model.json stands; the version's folder where there is no model.json."""
        return Place(self.version.path) if self.document is None else self.document.at(*keys)

    def whole(self, key: str, default: int) -> int:
        """A whole number; the default where it is absent or something else (a rule of its own names that)."""
        value = self.arguments.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def text(self, key: str) -> str:
        value = self.arguments.get(key)
        return value if isinstance(value, str) else ""

    def flag(self, key: str) -> bool:
        """True for true and, as NVIDIA's backend reads it, for the text "true"."""
        return str(self.arguments.get(key)).lower() == "true"

    @property
    def target(self) -> Artifact | None:
        """The served model's folder, where it is on this machine."""
        return self.version.artifacts.get(self.text("model"))

    @property
    def tokenizer(self) -> Artifact | None:
        return self.version.artifacts.get(self.text("tokenizer")) or self.target

    @property
    def gpus_per_instance(self) -> int:
        return max(1, self.whole("tensor_parallel_size", 1)) * max(1, self.whole("pipeline_parallel_size", 1))

    @property
    def gpu_memory_utilization(self) -> float:
        value = self.arguments.get("gpu_memory_utilization", DEFAULT_GPU_MEMORY_UTILIZATION)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return DEFAULT_GPU_MEMORY_UTILIZATION
        return float(max(-1e9, min(value, 1e9)))  # JSON's numbers have no bounds, floats do

    @property
    def speculation(self) -> Speculation | None:
        settings = self.arguments.get("speculative_config")
        if not isinstance(settings, dict):
            flat = {plain_name(key): value for key, value in self.arguments.items()}
            renamed = {**FLAT_SPECULATIVE_KEYS, **_SHORT_SPECULATIVE_KEYS}
            settings = {new: flat[old] for old, new in renamed.items() if new and old in flat}
        if not settings:
            return None
        draft = settings.get("model")
        draft = draft if isinstance(draft, str) else ""
        method = settings.get("method")
        artifact = self.version.artifacts.get(draft)
        return Speculation(
            method if isinstance(method, str) and method else _method_by_name(draft, artifact),
            draft,
            settings,
            artifact,
        )


def plain_name(key: str) -> str:
    """The Python name of a command line flag ('--max-model-len'); other names as they are."""
    return key.lstrip("-").replace("-", "_")


def _method_by_name(draft: str, artifact: Artifact | None) -> str:
    """The method that a draft's name or architecture stands for."""
    architectures = artifact.config.get("architectures") if artifact is not None else None
    name = " ".join([draft, *map(str, architectures if isinstance(architectures, list) else [])]).lower()
    if "eagle3" in name or "eagle-3" in name:
        return "eagle3"
    return next((method for method in ("eagle", "medusa", "dflash", "dspark") if method in name), "")


def engines_of(model: Model) -> Iterator[Engine]:
    """The engines of a vLLM model, one per version folder the server can use."""
    if not model.is_vllm:
        return
    for version in model.exact_versions:
        document = version.engine_arguments
        arguments = document.object if document is not None else None
        yield Engine(model, version, document, arguments or {})
