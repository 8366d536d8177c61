"""What a head reads and learns from its target: hidden states and the next token's distribution.

Computed by transformers from token ids whenever they are needed, never stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from tools.drafting.batches import Batch


@dataclass(frozen=True)
class Lesson:
    """`aux` [B, T, 3H], `embeds` [B, T, H]; for the batch's N counted positions, `probabilities` [N, D] of the draft
    vocabulary's tokens (their sum is under 1: the rest of the vocabulary has the rest) and `choices` [N], the target's
    greedy token.
    """

    aux: Tensor
    embeds: Tensor
    probabilities: Tensor
    choices: Tensor


class Teacher:
    """The frozen target."""

    def __init__(self, folder: Path, aux_layers: tuple[int, ...], device: str) -> None:
        # In the type that it is served in, where that is fast.
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        self._model: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype).to(device).eval()
        self._model.requires_grad_(False)
        self._aux_layers = aux_layers

    @property
    def output_layer(self) -> Tensor:
        """[V, H]"""
        return self._model.lm_head.weight

    @property
    def last_norm(self) -> Tensor:
        """[H]"""
        return self._model.model.norm.weight

    def teach(self, batch: Batch, draft_ids: Tensor) -> Lesson:
        """vLLM's aux layer k is transformers' `hidden_states[k]`: both are what goes into decoder layer k."""
        with torch.no_grad():
            outputs = self._model.model(input_ids=batch.tokens, output_hidden_states=True, use_cache=False)
            aux = torch.cat([outputs.hidden_states[layer] for layer in self._aux_layers], dim=-1)
            logits = self._model.lm_head(outputs.last_hidden_state[batch.rows, batch.columns]).float()
            probabilities = (logits[:, draft_ids] - logits.logsumexp(-1, keepdim=True)).exp()
            return Lesson(aux, outputs.hidden_states[0], probabilities, logits.argmax(-1))
