"""The model a profile serves, the artifacts made from it, and the machine it is meant for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from .base import PositiveFloat, PositiveInt, RelativePath, SpecModel, failure


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
    "tokenizer" for the template in the artifact's own tokenizer files, or the path of a Jinja file.
    """

    display_name: Annotated[str, Field(min_length=1)]
    family: Annotated[str, Field(min_length=1)]
    context_length: PositiveInt
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    chat_template: RelativePath = "tokenizer"

    @property
    def chat_template_file(self) -> str | None:
        """Path of the template's file; None for the tokenizer's own."""
        return None if self.chat_template == "tokenizer" else self.chat_template


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
    """The directories under the project that hold weights."""

    bf16: Weights
    awq: AwqWeights | None = None
    draft: DraftHead | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Paths an engine may be given as `model`."""
        return (self.bf16.path,) if self.awq is None else (self.bf16.path, self.awq.path)
