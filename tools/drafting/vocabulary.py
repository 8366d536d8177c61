"""The draft vocabulary: the tokens that the target writes most often, so that the head's output layer stays small."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tools.drafting.errors import DraftError

Ids = NDArray[np.int64]


def token_counts(answers: Iterable[NDArray[np.int32]], vocab_size: int) -> Ids:
    """[V] how often each token stands in the answers."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for answer in answers:
        counts += np.bincount(answer, minlength=vocab_size)
    return counts


def most_frequent(counts: Ids, size: int) -> Ids:
    """The `size` most frequent tokens, as ascending ids; of equal counts the smaller id. Raises DraftError."""
    if not 0 < size <= len(counts):
        raise DraftError(f"a draft vocabulary of {size} tokens: the target has {len(counts)}, take 1 to that many")
    by_count = np.argsort(-counts, kind="stable")[:size]
    return np.sort(by_count).astype(np.int64)


def coverage(counts: Ids, draft_ids: Ids) -> float:
    """Share of all tokens that the draft vocabulary can say."""
    total = int(counts.sum())
    return float(counts[draft_ids].sum() / total) if total else 0.0
