"""Bytes of weights on one GPU, by counting the matrices of a Llama-like decoder.

Tensor parallelism splits heads, MLP, embedding and output matrix; norms are copied. Linear layers are bare matrices
without biases. A tied output matrix is the embedding itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tools.planning.architecture import Architecture

DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}

_SCALE_BYTES: Final = 2  # float16
_ZERO_BYTES: Final = 0.5  # 4 bits
_TOKEN_ID_BYTES: Final = 8  # int64


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Weights on one GPU, by what holds them; `linear` are the matrices of the layers."""

    linear: int
    norms: int
    embedding: int
    output: int

    @property
    def total(self) -> int:
        return self.linear + self.norms + self.embedding + self.output


@dataclass(frozen=True, slots=True)
class Draft:
    """A head with one decoder layer of the target's sizes; `vocab_size` is its own."""

    method: Literal["eagle", "eagle3"]
    vocab_size: int


def count(architecture: Architecture, tensor_parallel: int = 1) -> ParameterCounts:
    """Weights of the target on each of `tensor_parallel` GPUs."""
    hidden, layers = architecture.hidden_size, architecture.num_hidden_layers
    vocabulary = hidden * architecture.vocab_size // tensor_parallel
    return ParameterCounts(
        linear=layers * _layer(architecture, hidden, tensor_parallel),
        norms=(2 * layers + 1) * hidden,
        embedding=vocabulary,
        output=0 if architecture.tie_word_embeddings else vocabulary,
    )


def unquantised_bytes(architecture: Architecture, dtype: str, tensor_parallel: int = 1) -> int:
    """Every weight in `dtype`, a key of DTYPE_BYTES."""
    return count(architecture, tensor_parallel).total * DTYPE_BYTES[dtype]


def awq_bytes(architecture: Architecture, group_size: int, dtype: str, tensor_parallel: int = 1) -> int:
    """AWQ as AutoAWQ writes it: linear layers in 4 bits, with a float16 scale and a 4-bit zero for each group of
    `group_size`; embedding, output matrix and norms stay in `dtype`.
    """
    counts = count(architecture, tensor_parallel)
    groups = counts.linear // group_size
    packed = counts.linear // 2 + int(groups * (_SCALE_BYTES + _ZERO_BYTES))
    return packed + (counts.total - counts.linear) * DTYPE_BYTES[dtype]


def draft_bytes(architecture: Architecture, draft: Draft, dtype: str, tensor_parallel: int = 1) -> int:
    """An EAGLE head beside its target, whose embedding it shares. An EAGLE head also shares the output matrix.

    EAGLE-3: `fc` [H, 3H], attention that reads [2H], MLP, four norms, output [Vd, H], `d2t` [Vd] int64.
    """
    hidden = architecture.hidden_size
    three = draft.method == "eagle3"
    fusion = (3 if three else 2) * hidden * hidden
    layer = _layer(architecture, 2 * hidden if three else hidden, tensor_parallel)
    output = draft.vocab_size * hidden // tensor_parallel if three else 0
    table = draft.vocab_size * _TOKEN_ID_BYTES if three else 0
    return (fusion + layer + output + 4 * hidden) * DTYPE_BYTES[dtype] + table


def _layer(architecture: Architecture, attention_input: int, tensor_parallel: int) -> int:
    """Weights of one decoder layer's matrices: q, k, v, o, gate, up, down."""
    hidden, head = architecture.hidden_size, architecture.head_dim
    queries = architecture.num_attention_heads * head // tensor_parallel
    keys = architecture.kv_heads_per_gpu(tensor_parallel) * head
    mlp = 3 * hidden * architecture.intermediate_size // tensor_parallel
    return attention_input * (queries + 2 * keys) + queries * hidden + mlp
