"""The sizes of a decoder that decide its memory: from its config.json, or from the profile before there is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.planning.errors import PlanningError
from tools.spec.model import ServedModel

CONFIG: Final = "config.json"
_COUNTED: Final = ("llama", "mistral")
"""Model types with the layout that weights.py counts: gated MLP, two norms a layer, no biases."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes of a Llama-like decoder, under their names in config.json."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    tie_word_embeddings: bool

    def kv_heads_per_gpu(self, tensor_parallel: int) -> int:
        """KV heads each GPU holds; vLLM gives every GPU a copy where there are fewer heads than GPUs."""
        return max(1, self.num_key_value_heads // tensor_parallel)


class _Quantization(BaseModel):
    model_config = ConfigDict(frozen=True)

    group_size: int | None = None


class _Config(BaseModel):
    """The part of config.json that is read."""

    model_config = ConfigDict(frozen=True)

    model_type: str
    hidden_size: int = Field(gt=0)
    intermediate_size: int = Field(gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_attention_heads: int = Field(gt=0)
    num_key_value_heads: int | None = Field(default=None, gt=0)
    head_dim: int | None = Field(default=None, gt=0)
    vocab_size: int = Field(gt=0)
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    quantization_config: _Quantization | None = None

    @property
    def architecture(self) -> Architecture:
        return Architecture(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads or self.num_attention_heads,
            head_dim=self.head_dim or self.hidden_size // self.num_attention_heads,
            vocab_size=self.vocab_size,
            tie_word_embeddings=self.tie_word_embeddings,
        )


def architecture_of(model: ServedModel, folder: Path, name: str, group_size: int | None = None) -> Architecture:
    """Sizes of the artifact in `folder`, which the profile calls `name`; from the profile while it is not there.

    `group_size` is the profile's for a quantised artifact. Raises PlanningError: sizes nowhere, a config.json that
    cannot be read or counted, or one that says something else than the profile.
    """
    config = _read(folder / CONFIG, f"{name}/{CONFIG}")
    if config is None:
        return _from_profile(model, name)
    differences = [
        f'"{key}" is {found} there and {said} in the profile'
        for key, found, said in _comparison(config, model, group_size)
        if found != said
    ]
    if differences:
        raise PlanningError(
            f'"{name}/{CONFIG}" is not of the model that the profile describes: {"; ".join(differences)}: '
            "correct the profile, or put the right checkpoint there"
        )
    return config.architecture


def _from_profile(model: ServedModel, name: str) -> Architecture:
    intermediate, layers = model.intermediate_size, model.num_hidden_layers
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    if intermediate is None or layers is None or heads is None or kv_heads is None:
        raise PlanningError(
            f'the sizes of "{model.display_name}" are not known: there is no "{name}/{CONFIG}", and the profile\'s '
            '"model" has no "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size": '
            "put the checkpoint there, or copy the sizes from its config.json into the profile"
        )
    return Architecture(
        hidden_size=model.hidden_size,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=model.head_dim or model.hidden_size // heads,
        vocab_size=model.vocab_size,
        tie_word_embeddings=model.tie_word_embeddings,
    )


def _comparison(config: _Config, model: ServedModel, group_size: int | None) -> list[tuple[str, object, object]]:
    """(key, value in config.json, value in the profile) of everything that both say."""
    found = config.architecture
    pairs: list[tuple[str, object, object]] = [
        ("hidden_size", found.hidden_size, model.hidden_size),
        ("vocab_size", found.vocab_size, model.vocab_size),
    ]
    if model.num_hidden_layers is not None:
        said = _from_profile(model, "")
        pairs += [
            (key, getattr(found, key), getattr(said, key))
            for key in Architecture.__slots__
            if key not in ("hidden_size", "vocab_size")
        ]
    # compressed-tensors writes its group size elsewhere, and for each kind of layer.
    written = config.quantization_config.group_size if config.quantization_config else None
    if group_size is not None and written is not None:
        pairs.append(("quantization_config.group_size", written, group_size))
    return pairs


def _read(file: Path, name: str) -> _Config | None:
    """The config in a file; None where there is no file. Raises PlanningError."""
    try:
        config = _Config.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanningError(f'"{name}" cannot be read: {error}') from None
    except ValidationError as error:
        detail = error.errors()[0]
        key = ".".join(map(str, detail["loc"]))
        raise PlanningError(
            f'"{name}" is no config.json of a decoder: {key + ": " if key else ""}{detail["msg"]}: make or copy the '
            "checkpoint again"
        ) from None
    if config.model_type not in _COUNTED:
        raise PlanningError(
            f'"{name}" has "model_type" "{config.model_type}", whose weights this plan does not count: it knows '
            f"{', '.join(_COUNTED)}"
        )
    if config.attention_bias or config.mlp_bias:
        raise PlanningError(f'"{name}" has biases, which this plan does not count')
    return config
