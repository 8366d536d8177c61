"""What a head is trained for, and how well it does on a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tools.drafting.batches import Batch
from tools.drafting.features import Lesson
from tools.drafting.head import Eagle3Head

# A later draft only counts when all before it were accepted.
_DECAY = 0.8


@dataclass(frozen=True)
class Outcome:
    """`loss` [] over all steps; `agreement` [steps]: how often draft step j, all before it accepted, is the target's
    greedy token. `positions` were counted.
    """

    loss: Tensor
    agreement: Tensor
    positions: int


def assess(head: Eagle3Head, batch: Batch, lesson: Lesson, steps: int) -> Outcome:
    """Cross-entropy of the head's distribution to the target's, summed over the draft vocabulary.

    Positions at which the target wants to say something outside of it weigh less by themselves. Step j predicts the
    token after a counted position from the row j + 1 positions earlier, so every step has the same N targets.
    """
    target, draft_ids = lesson.probabilities, head.draft_ids
    losses, hits = [], []
    for step, hidden in enumerate(head.unroll(lesson.embeds, lesson.aux, steps)):
        logits = head.lm_head(hidden[batch.rows, batch.columns - 1 - step]).float()
        # - sum p (logits - logsumexp logits), without a second array of the size of the logits
        loss = (target.sum(-1) * logits.logsumexp(-1) - (target * logits).sum(-1)).mean()
        losses.append(_DECAY**step * loss)
        hits.append(draft_ids[logits.detach().argmax(-1)] == lesson.choices)
    return Outcome(torch.stack(losses).sum(), _agreement(torch.stack(hits), batch), len(batch.rows))


def mean_acceptance_length(agreement: list[float]) -> float:
    """1 + p0 + p0 p1 + ...: tokens of one step of the target. An estimate: vLLM's own count is what is reported."""
    length, chain = 1.0, 1.0
    for share in agreement:
        chain *= share
        length += chain
    return length


def _agreement(hits: Tensor, batch: Batch) -> Tensor:
    """[steps] of hits [steps, N]: the drafts of one base are hits at consecutive positions, one step on each."""
    width = int(batch.columns.max()) + 2
    grid = torch.zeros(len(hits), int(batch.rows.max()) + 1, width, dtype=torch.bool, device=hits.device)
    for step, hit in enumerate(hits):
        grid[step].index_put_((batch.rows, batch.columns - 1 - step), hit)
    # grid[j, b, t]: whether step j from base t hits. A base counts at step j when all steps before j hit.
    shares, alive = [], None
    for step in range(len(hits)):
        counted = torch.zeros_like(grid[step]).index_put_(
            (batch.rows, batch.columns - 1 - step), torch.ones_like(hits[step])
        )
        considered = counted if alive is None else counted & alive
        alive = considered & grid[step]
        shares.append(alive.sum() / considered.sum().clamp(min=1))
    return torch.stack(shares)
