from __future__ import annotations

import pytest
import torch

from tests.drafting.examples import conversation
from tools.drafting.batches import collate
from tools.drafting.objective import _agreement, mean_acceptance_length


def test_acceptance_length_multiplies_along_the_chain() -> None:
    assert mean_acceptance_length([0.5, 0.5, 1.0]) == pytest.approx(1 + 0.5 + 0.25 + 0.25)


def test_a_later_draft_counts_only_where_all_before_it_hit() -> None:
    batch = collate([conversation(1, length=12, start=8)], steps=2)
    # Columns 8, 9, 10. The first step drafts them from bases 7, 8, 9, the second from 6, 7, 8.
    hits = torch.tensor([[True, False, True], [True, True, True]])
    # Base 7: hit, then hit. Base 8: miss. Base 9: hit, and no second draft in the data.
    assert _agreement(hits, batch).tolist() == pytest.approx([2 / 3, 1.0])
