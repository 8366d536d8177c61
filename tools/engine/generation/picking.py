"""How a row's next token is picked, when not simply the most likely one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers.generation.logits_process import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from .rows import Row
from .sampling import Sampling

Step = Callable[[Any, Any], Any]


class RowPicker(LogitsProcessor):  # type: ignore[misc]
    """Leaves one candidate in each row that samples; `generate` then takes the best of every row, as in greedy search.

    `generate` itself knows one set of parameters and one random generator a batch. Here every row has its own, so an
    answer does not depend on who shares the batch, and a seed gives the same answer again. A row that is greedy and
    has no penalty costs nothing.
    """

    def __init__(self, rows: Sequence[Row], padded_length: int, device: Any) -> None:
        self._rows = [_RowPick(row, padded_length, device) for row in rows]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """`input_ids`: (rows, length so far), left-padded. `scores`: (rows, vocabulary), float32, changed in place."""
        for index, row in enumerate(self._rows):
            if row.picks:
                scores[index] = row.pick(input_ids[index : index + 1], scores[index : index + 1])
        return scores


class _RowPick:
    def __init__(self, row: Row, padded_length: int, device: Any) -> None:
        sampling = row.prompt.sampling
        self._row = row
        self._start = padded_length - len(row.prompt.token_ids)
        self._stop_ids = sorted(row.prompt.stop_ids)
        self._penalty = _penalty(sampling)
        self._warpers = _warpers(sampling)
        self._generator = None if sampling.greedy else _generator(sampling.seed, device)
        self._needed = bool(self._generator or self._penalty or (sampling.min_tokens and self._stop_ids))

    @property
    def picks(self) -> bool:
        return self._needed and not self._row.done

    def pick(self, ids: Any, scores: Any) -> Any:
        if self._penalty:
            # Without the padding: its token is part of the vocabulary and must not be penalised.
            scores = self._penalty(ids[:, self._start :], scores)
        if self._stop_ids and self._row.count < self._row.prompt.sampling.min_tokens:
            scores[:, self._stop_ids] = -torch.inf
        if self._generator is None:
            return scores[0]
        for warper in self._warpers:
            scores = warper(ids, scores)
        token = torch.multinomial(scores.softmax(dim=-1), num_samples=1, generator=self._generator)
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)[0]


def _penalty(sampling: Sampling) -> Step | None:
    if sampling.repetition_penalty == 1:
        return None
    penalty: Step = RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty)
    return penalty


def _warpers(sampling: Sampling) -> list[Step]:
    """transformers' own, in the order in which `generate` applies them."""
    if sampling.greedy:
        return []
    warpers: list[Step] = []
    if sampling.temperature != 1:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    return warpers


def _generator(seed: int | None, device: Any) -> Any:
    generator = torch.Generator(device)
    generator.manual_seed(secrets.randbits(63) if seed is None else seed)
    return generator
