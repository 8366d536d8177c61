"""The rungs: each variant becomes one Triton model `llm_<name>` and one ensemble `chat_<name>` in front of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from .base import PositiveInt, RelativePath, SpecModel
from .batching import DynamicBatching
from .environment import Environment
from .limits import GoldenInterval, Limits


class _Variant(SpecModel):
    """`environment` is added to the profile's; `limits` replaces the profile's for this variant.

    `load_versions` restricts what tritonserver loads, for a machine that cannot hold every version at once.
    """

    enabled: bool = True
    load_versions: Annotated[tuple[PositiveInt, ...], Field(strict=False, min_length=1)] | None = None
    environment: Environment = Field(default_factory=dict)
    limits: Limits | None = None


class BaselineVersion(SpecModel):
    """One version of the transformers baseline; the fields are its model.json, as they stand.

    `flash_attention_2` falls back to sdpa where flash-attn is not installed, and the engine says which it took.
    `batching` generates the requests of one Triton batch together. `load_format` is vLLM's: "dummy" makes weights up.
    """

    model: RelativePath
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    attention: Literal["eager", "sdpa", "flash_attention_2"]
    batching: bool
    max_model_len: PositiveInt
    load_format: Literal["auto", "dummy"] = "auto"


class BaselineVariant(_Variant):
    """transformers' generate() behind Triton's Python backend."""

    kind: Literal["baseline"]
    dynamic_batching: DynamicBatching
    versions: Annotated[dict[PositiveInt, BaselineVersion], Field(min_length=1)]

    @property
    def loaded_versions(self) -> frozenset[int]:
        """Versions that tritonserver loads."""
        return frozenset(self.load_versions or self.versions)

    def max_model_lens(self) -> list[int | None]:
        """Longest context of each version, in tokens."""
        return [version.max_model_len for version in self.versions.values()]


class VllmVariant(_Variant):
    """vLLM behind the backend of that name: `versions` maps a version to its engine arguments.

    The arguments are written to model.json as they stand, so every key is one of vLLM's AsyncEngineArgs and the same
    directory runs on NVIDIA's backend.
    """

    kind: Literal["vllm"]
    versions: Annotated[dict[PositiveInt, dict[str, JsonValue]], Field(min_length=1)]
    golden_interval: GoldenInterval | None = None

    @property
    def loaded_versions(self) -> frozenset[int]:
        """Versions that tritonserver loads."""
        return frozenset(self.load_versions or self.versions)

    def max_model_lens(self) -> list[int | None]:
        """Longest context of each version, in tokens; None where vLLM takes the model's own."""
        lengths = [arguments.get("max_model_len") for arguments in self.versions.values()]
        return [length if isinstance(length, int) else None for length in lengths]


Variant = Annotated[BaselineVariant | VllmVariant, Field(discriminator="kind")]
