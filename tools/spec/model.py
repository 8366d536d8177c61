"""The model a profile serves, the artifacts made from it, and the machine it is meant for."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from .base import PositiveFloat, PositiveInt, RelativePath, SpecModel, failure

_SIZES_OF_A_LAYER: Final = ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


class Target(SpecModel):
    """The machine: `gpus` and `gpu_memory_gib` (of one GPU) are 0 on a machine without."""

    accelerator: Literal["cpu", "cuda"]
    gpus: Annotated[int, Field(ge=0)] = 0
    gpu_memory_gib: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _gpus_fit_accelerator(self) -> Target:
        if self.accelerator == "cpu" and (self.gpus or self.gpu_memory_gib):
            raise failure('"accelerator" is "cpu": remove "gpus" and "gpu_memory_gib", or set it to "cuda"')
        if self.accelerator == "cuda" and not (self.gpus and self.gpu_memory_gib):
            raise failure('"accelerator" is "cuda": say how many "gpus" there are and the "gpu_memory_gib" of one')
        return self


class ServedModel(SpecModel):
    """Facts of the checkpoint that other parts are checked against.

    `context_length` is the longest prompt plus answer the weights were trained for, in tokens. `chat_template` is
    "tokenizer" for the template in the artifact's own tokenizer files, or the path of a Jinja file. The sizes from
    `intermediate_size` on bear the names they have in the checkpoint's config.json; they let memory be planned before
    the checkpoint is there. `head_dim` None is hidden_size / num_attention_heads.
    """

    display_name: Annotated[str, Field(min_length=1)]
    family: Annotated[str, Field(min_length=1)]
    context_length: PositiveInt
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    intermediate_size: PositiveInt | None = None
    num_hidden_layers: PositiveInt | None = None
    num_attention_heads: PositiveInt | None = None
    num_key_value_heads: PositiveInt | None = None
    head_dim: PositiveInt | None = None
    tie_word_embeddings: bool = False
    chat_template: RelativePath = "tokenizer"

    @property
    def chat_template_file(self) -> str | None:
        """Path of the template's file; None for the tokenizer's own."""
        return None if self.chat_template == "tokenizer" else self.chat_template

    @model_validator(mode="after")
    def _sizes_fit(self) -> ServedModel:
        missing = [name for name in _SIZES_OF_A_LAYER if getattr(self, name) is None]
        if missing and len(missing) < len(_SIZES_OF_A_LAYER):
            raise failure(
                f"{', '.join(map(repr, missing))} missing: give all of {', '.join(_SIZES_OF_A_LAYER)} as in the "
                "checkpoint's config.json, or none"
            )
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if heads and kv_heads and heads % kv_heads:
            raise failure(f'"num_key_value_heads" {kv_heads} does not divide "num_attention_heads" {heads}')
        if heads and self.head_dim is None and self.hidden_size % heads:
            raise failure(
                f'"num_attention_heads" {heads} does not divide "hidden_size" {self.hidden_size}: give "head_dim"'
            )
        return self


class Weights(SpecModel):
    """An unquantised checkpoint."""

    path: RelativePath
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"


class QualityBar(SpecModel):
    """How much perplexity on held-out text a quantised checkpoint may cost. At least one bound.

    `max_share_of_rounding`: of what rounding to nearest costs at the same group size, measured in the same run.
    `max_perplexity_increase`: of the original's perplexity, 0.03 for 3 %.
    """

    max_share_of_rounding: PositiveFloat | None = None
    max_perplexity_increase: PositiveFloat | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> QualityBar:
        if self.max_share_of_rounding is None and self.max_perplexity_increase is None:
            raise failure('"gate" bounds nothing: give "max_share_of_rounding", "max_perplexity_increase" or both')
        return self


class AwqWeights(SpecModel):
    """A 4-bit AWQ checkpoint; `group_size` weights share one scale. `gate` decides whether it may be served."""

    path: RelativePath
    group_size: PositiveInt = 128
    gate: QualityBar = QualityBar(max_share_of_rounding=0.5)


class DraftHead(SpecModel):
    """A drafting head for speculative decoding; sizes are the head's own, for the fit with the target."""

    path: RelativePath
    method: Literal["eagle", "eagle3"]
    hidden_size: PositiveInt
    vocab_size: PositiveInt


class Artifacts(SpecModel):
    """The directories under the project that hold weights.

    With `dummy_weights` they hold none: each gets a config.json out of the profile's sizes and a tokenizer, and engines
    make weights up (`load_format` "dummy"). How fast a model of that shape is can then be measured without it; what it
    says is nonsense.
    """

    bf16: Weights
    awq: AwqWeights | None = None
    draft: DraftHead | None = None
    dummy_weights: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """Paths an engine may be given as `model`."""
        return (self.bf16.path,) if self.awq is None else (self.bf16.path, self.awq.path)
