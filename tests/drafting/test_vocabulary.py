from __future__ import annotations

import numpy as np
import pytest

from tools.drafting.errors import DraftError
from tools.drafting.vocabulary import coverage, most_frequent, token_counts


def test_counts_are_of_all_answers() -> None:
    counts = token_counts([np.array([1, 1, 3], np.int32), np.array([3, 3], np.int32)], vocab_size=5)
    assert counts.tolist() == [0, 2, 0, 3, 0]


def test_the_most_frequent_tokens_come_as_ascending_ids() -> None:
    assert most_frequent(np.array([5, 0, 9, 7]), 3).tolist() == [0, 2, 3]


def test_of_equal_counts_the_smaller_id_is_taken() -> None:
    assert most_frequent(np.array([0, 4, 4, 4]), 2).tolist() == [1, 2]


@pytest.mark.parametrize("size", [0, 5])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(DraftError, match=rf"draft vocabulary of {size} tokens: the target has 4, take 1 to that many"):
        most_frequent(np.zeros(4, np.int64), size)


def test_coverage_is_the_share_of_tokens() -> None:
    assert coverage(np.array([6, 1, 3]), np.array([0, 2])) == pytest.approx(0.9)
