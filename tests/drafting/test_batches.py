from __future__ import annotations

import itertools

import numpy as np

from tests.drafting.examples import conversation
from tools.drafting.batches import batches, collate, plan_batches


def test_an_epoch_holds_every_conversation_once_in_batches_of_bounded_size() -> None:
    lengths = list(np.random.default_rng(0).integers(10, 500, 200))
    plan = plan_batches(lengths, 4096, np.random.default_rng(1))
    assert sorted(itertools.chain.from_iterable(plan)) == list(range(200))
    for group in plan:
        width = -(-max(lengths[index] for index in group) // 64) * 64
        assert len(group) * width <= 4096


def test_a_conversation_longer_than_a_batch_is_a_batch_of_its_own() -> None:
    assert plan_batches([600], 512, np.random.default_rng(0)) == [[0]]


def test_positions_count_whose_next_token_is_in_the_answer_but_not_its_first() -> None:
    batch = collate([conversation(1, length=12, start=8), conversation(2, length=10, start=7)], steps=3)
    assert list(zip(batch.rows.tolist(), batch.columns.tolist(), strict=True)) == [
        (0, 8), (0, 9), (0, 10), (1, 7), (1, 8),
    ]  # fmt: skip
    assert batch.tokens.shape == (2, 64)
    assert not batch.tokens[0, 12:].any()


def test_every_counted_position_has_room_for_all_steps_before_it() -> None:
    batch = collate([conversation(1, length=12, start=1)], steps=5)
    assert int(batch.columns.min()) == 5


def test_skipping_continues_the_same_order_across_epochs() -> None:
    conversations = [conversation(number, length=20 + 7 * number) for number in range(12)]
    stream = [
        batch.tokens.tolist() for batch in itertools.islice(batches(conversations, tokens=256, steps=3, seed=4), 20)
    ]
    rest = batches(conversations, tokens=256, steps=3, seed=4, skip=13)
    assert [batch.tokens.tolist() for batch in itertools.islice(rest, 7)] == stream[13:]
