"""Conversations as padded batches of about equal size, in an order that a resumed run repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tools.drafting.conversations import Conversation

# Lengths are rounded up to this, so that few shapes occur and attention kernels find aligned rows.
_MULTIPLE = 64


@dataclass(frozen=True)
class Batch:
    """`tokens` [B, T] int64, padded on the right: what comes later cannot reach what is causal.

    `rows`, `columns` [N] int64: the positions whose next token the head is to predict.
    """

    tokens: Tensor
    rows: Tensor
    columns: Tensor

    def to(self, device: str) -> Batch:
        moved = (part.to(device, non_blocking=True) for part in (self.tokens, self.rows, self.columns))
        return Batch(*moved)


def plan_batches(lengths: Sequence[int], tokens: int, generator: np.random.Generator) -> list[list[int]]:
    """One epoch: indices of conversations, grouped by length so that a padded batch has about `tokens` positions."""
    shuffled = generator.permutation(len(lengths))
    padded = np.array([_rounded(length) for length in lengths], dtype=np.int64)
    by_length = shuffled[np.argsort(padded[shuffled], kind="stable")]
    groups: list[list[int]] = []
    group: list[int] = []
    for index in by_length:
        # Ascending, so the newest decides the width.
        if group and (len(group) + 1) * padded[index] > tokens:
            groups.append(group)
            group = []
        group.append(int(index))
    if group:
        groups.append(group)
    return [groups[place] for place in generator.permutation(len(groups))]


def collate(conversations: Sequence[Conversation], steps: int) -> Batch:
    """Positions count whose next token is in the answer, but for its first: the target writes that one itself.

    Every counted position has `steps` positions before it, which step j of the unrolling needs.
    """
    width = _rounded(max(len(conversation.tokens) for conversation in conversations))
    tokens = np.zeros((len(conversations), width), dtype=np.int64)
    rows, columns = [], []
    for row, conversation in enumerate(conversations):
        length = len(conversation.tokens)
        tokens[row, :length] = conversation.tokens
        counted = np.arange(max(conversation.answer_start, steps), length - 1)
        columns.append(counted)
        rows.append(np.full(len(counted), row))
    return Batch(
        torch.from_numpy(tokens), torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(columns))
    )


def batches(
    conversations: Sequence[Conversation], *, tokens: int, steps: int, seed: int, skip: int = 0
) -> Iterator[Batch]:
    """Without end, epoch after epoch; `skip` batches are left out, as a resumed run wants it."""
    lengths = [len(conversation.tokens) for conversation in conversations]
    epoch = 0
    while True:
        plan = plan_batches(lengths, tokens, np.random.default_rng((seed, epoch)))
        for group in plan[skip:]:
            yield collate([conversations[index] for index in group], steps)
        skip = max(0, skip - len(plan))
        epoch += 1


def _rounded(length: int) -> int:
    return -(-length // _MULTIPLE) * _MULTIPLE
