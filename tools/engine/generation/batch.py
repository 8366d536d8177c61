"""One call of transformers' `generate` for one request or for a batch of them, streamed row by row.

The call is `generate` itself and no loop of our own, because this rung is what the others are measured against: a
tighter loop would make it faster than what people run. Streaming, per-row ends and cancellation all hang on a stopping
criterion, which `generate` asks after every token and which sees the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import GenerationConfig
from transformers.generation.stopping_criteria import StoppingCriteria

from tools.wire.messages import Delta

from .picking import RowPicker
from .rows import Row

# Told after every token, in the thread that generates: what each row that has not ended gained.
OnStep = Callable[[list[tuple[Row, Delta]]], None]


def generate(model: Any, rows: Sequence[Row], pad_token_id: int, on_step: OnStep) -> None:
    """Generate until every row is done or cancelled. Blocks; `model` is not to be used elsewhere meanwhile."""
    longest = max(len(row.prompt.token_ids) for row in rows)
    # Left-padded: the last position of every row is then the one that continues.
    ids = [[pad_token_id] * (longest - len(row.prompt.token_ids)) + row.prompt.token_ids for row in rows]
    mask = [[0] * (longest - len(row.prompt.token_ids)) + [1] * len(row.prompt.token_ids) for row in rows]
    device = model.device
    model.generate(
        torch.tensor(ids, device=device),
        attention_mask=torch.tensor(mask, device=device),
        generation_config=GenerationConfig(
            do_sample=False,
            max_new_tokens=max(row.prompt.max_new_tokens for row in rows),
            pad_token_id=pad_token_id,
        ),
        logits_processor=[RowPicker(rows, longest, device)],
        stopping_criteria=[_RowsEnd(rows, on_step)],
    )


class _RowsEnd(StoppingCriteria):  # type: ignore[misc]
    """Hands each row its new token and tells `generate` which rows have ended.

    A row that has ended keeps its place and its cost until the longest one ends: that is what static batching is.
    """

    def __init__(self, rows: Sequence[Row], on_step: OnStep) -> None:
        self._rows = rows
        self._on_step = on_step

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """`input_ids`: (rows, length so far). Returns a bool per row, true for those that have ended."""
        deltas = []
        for row, token in zip(self._rows, input_ids[:, -1].tolist(), strict=True):
            if row.work.cancelled:
                row.done = True
            if not row.done:
                deltas.append((row, row.take(token)))
        if deltas:
            self._on_step(deltas)
        return torch.tensor([row.done for row in self._rows], device=input_ids.device)
