"""Conversations out of nothing. Without torch: an engine of a test would import it for longer than it works."""

from __future__ import annotations

import numpy as np

from tools.drafting.conversations import Conversation


def conversation(number: int, length: int = 40, start: int = 8, *, unseen: bool = False) -> Conversation:
    tokens = np.random.default_rng(number).integers(0, 300, length).astype(np.int32)
    return Conversation(tokens, start, unseen)
