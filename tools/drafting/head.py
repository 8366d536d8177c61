"""The EAGLE-3 head as a torch module, with the tensor names and the arithmetic of vLLM's `llama_eagle3.py`.

Shapes: B conversations, T positions, H the hidden size, V the target's vocabulary, D the draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
    repeat_kv,
)

KeyValue = tuple[Tensor, Tensor]

_FEATURE_SCALE: Final = 1 / 16
_CONFIDENCE: Final = 0.5


class _Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Any) -> None:
        super().__init__()
        heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.head_dim, self.groups = size, heads // kv_heads
        self.q_proj = nn.Linear(2 * config.hidden_size, heads * size, bias=False)
        self.k_proj = nn.Linear(2 * config.hidden_size, kv_heads * size, bias=False)
        self.v_proj = nn.Linear(2 * config.hidden_size, kv_heads * size, bias=False)
        self.o_proj = nn.Linear(heads * size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, rotation: KeyValue, earlier: list[KeyValue], mask: Tensor) -> Tensor:
        """x [B, T, 2H] -> [B, T, H]; appends this step's keys and values to `earlier`.

        mask [T, (steps so far + 1) * T], true where a query sees a key.
        """
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = apply_rotary_pos_emb(query, key, *rotation)
        earlier.append((repeat_kv(key, self.groups), repeat_kv(value, self.groups)))
        keys, values = (torch.cat(parts, dim=2) for parts in zip(*earlier, strict=True))
        mixed = scaled_dot_product_attention(query.to(values.dtype), keys.to(values.dtype), values, attn_mask=mask)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class _MidLayer(nn.Module):  # type: ignore[misc]
    def __init__(self, config: Any) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.self_attn = _Attention(config)
        self.mlp = LlamaMLP(config)

    def forward(
        self, embeds: Tensor, hidden: Tensor, rotation: KeyValue, earlier: list[KeyValue], mask: Tensor
    ) -> Tensor:
        x = torch.cat((self.input_layernorm(embeds), self.hidden_norm(hidden)), dim=-1)
        hidden = hidden + self.self_attn(x, rotation, earlier, mask)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3Head(nn.Module):  # type: ignore[misc]
    """`state_dict()` has exactly the names that vLLM loads; the token embedding is the target's and stays there."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config` is what `architecture.head_config` returns."""
        super().__init__()
        llama = LlamaConfig(**config)
        hidden, draft = llama.hidden_size, config["draft_vocab_size"]
        aux = len(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
        self.fc = nn.Linear(aux * config["target_hidden_size"], hidden, bias=False)
        self.midlayer = _MidLayer(llama)
        self.norm = LlamaRMSNorm(hidden, eps=llama.rms_norm_eps)
        self.lm_head = nn.Linear(hidden, draft, bias=False)
        self.register_buffer("d2t", torch.zeros(draft, dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(llama.vocab_size, dtype=torch.bool))
        self._rotary = LlamaRotaryEmbedding(llama)

    def begin_from(self, draft_ids: Tensor, lm_head: Tensor, norm: Tensor) -> None:
        """Set the vocabulary mapping, and start from the target's output layer, unsure of itself.

        A target's hidden states are tens of times larger than what a fresh layer adds to them: at their own scale the
        layer's work would be drowned, and the output layer, made for other features, be very sure of nonsense.
        draft_ids [D] int64, ascending; lm_head [V, H] and norm [H] are the target's.
        """
        self.d2t.copy_(draft_ids - torch.arange(len(draft_ids), device=draft_ids.device))
        self.t2d.zero_()[draft_ids] = True
        with torch.no_grad():
            self.fc.weight.mul_(_FEATURE_SCALE)
            self.lm_head.weight.copy_(lm_head[draft_ids])
            self.norm.weight.copy_(_CONFIDENCE * norm)

    @property
    def draft_ids(self) -> Tensor:
        """[D] int64: the target's token of each draft token."""
        return self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def unroll(self, embeds: Tensor, aux: Tensor, steps: int) -> Iterator[Tensor]:
        """Draft `steps` tokens from every position at once; yields each step's normed hidden states [B, T, H].

        embeds [B, T, H] of the conversation's tokens, aux [B, T, 3H] of the target's hidden states. Row t of step j
        predicts token t + 2 + j: it has read the features of positions up to t, and the embeddings up to token
        t + 1 + j. That is training-time test (EAGLE-3, section 3.2): from the second step on the head's own output
        takes the place of the target's features, as it does when vLLM drafts, and so errors it makes are trained on.

        vLLM gives a draft token that follows position t the position t + j, and its key stands after those of
        positions 0 to t. The keys of other rows' drafts are not there at all, hence the mask of `draft_mask`.
        """
        length = embeds.shape[1]
        hidden = self.fc(aux)
        earlier: list[KeyValue] = []
        for step in range(steps):
            # The last rows have no token to read. They predict nothing that is in the data either.
            shifted = nn.functional.pad(embeds[:, step + 1 :], (0, 0, 0, step + 1))
            positions = torch.arange(step, step + length, device=embeds.device)[None]
            rotation = self._rotary(hidden, positions)
            mask = draft_mask(length, step, embeds.device)
            hidden = self.midlayer(shifted, hidden, rotation, earlier, mask)
            yield self.norm(hidden)


def draft_mask(length: int, step: int, device: Any = None) -> Tensor:
    """[T, (step + 1) * T], true where a query sees a key: causal on the target's features, then only its own drafts."""
    causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    own = torch.eye(length, dtype=torch.bool, device=device)
    return torch.cat((causal, *[own] * step), dim=1)
