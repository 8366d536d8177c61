"""Measuring by turns."""

from __future__ import annotations

import pytest

from tools.benchmark.pairs import by_turns
from tools.benchmark.workload import Load, Tally

LOAD = Load(streams=1, tokens=2)


@pytest.mark.parametrize("first_begins", [True, False])
def test_the_answers_come_in_one_order_whoever_begins(first_begins: bool) -> None:
    order: list[str] = []

    def side(name: str, tokens: int) -> Tally:
        order.append(name)
        return Tally(seconds=1, tokens=tokens, responses=1, ttft_s=())

    one, other = by_turns(
        LOAD, lambda _: side("first", 1), lambda _: side("second", 2), first_begins=first_begins, pause_s=0
    )
    assert (one.tokens, other.tokens) == (1, 2)
    assert order == (["first", "second"] if first_begins else ["second", "first"])
