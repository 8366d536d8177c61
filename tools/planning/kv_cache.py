"""The paged KV cache: bytes of a token, blocks in a number of bytes, sequences in a number of blocks.

As vLLM counts them (v1/core/kv_cache_utils.py of 0.32): the bytes are cut into whole blocks over all layers, and a
sequence holds whole blocks. One block is never given out; it stands for "no block".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tools.planning.architecture import Architecture

GPU_BLOCK_TOKENS: Final = 16
CPU_BLOCK_TOKENS: Final = 128


@dataclass(frozen=True, slots=True)
class KvCache:
    """One GPU's slice of a cache: bytes that a token takes there, and tokens in a block."""

    token_bytes: int
    block_tokens: int

    @classmethod
    def of(
        cls,
        architecture: Architecture,
        *,
        element_bytes: int,
        block_tokens: int,
        draft_layers: int,
        tensor_parallel: int,
    ) -> KvCache:
        """2 (key and value) x layers x KV heads x head_dim x bytes of an element; a draft's layers cache too."""
        layers = architecture.num_hidden_layers + draft_layers
        heads = architecture.kv_heads_per_gpu(tensor_parallel)
        return cls(2 * layers * heads * architecture.head_dim * element_bytes, block_tokens)

    @property
    def block_bytes(self) -> int:
        return self.token_bytes * self.block_tokens

    def blocks(self, available: int) -> int:
        """Blocks in that many bytes."""
        return max(0, available) // self.block_bytes

    def tokens(self, available: int) -> int:
        """Tokens in that many bytes, as vLLM prints them at start-up."""
        return self.blocks(available) * self.block_tokens

    def sequences(self, available: int, context: int) -> int:
        """Sequences of `context` tokens that fit into that many bytes at once."""
        return max(0, self.blocks(available) - 1) // self._blocks_of(context)

    def bytes_for(self, sequences: int, context: int) -> int:
        """The least bytes that hold `sequences` of `context` tokens."""
        return (sequences * self._blocks_of(context) + 1) * self.block_bytes

    def _blocks_of(self, context: int) -> int:
        return -(-context // self.block_tokens)
