"""Agreement: how far two answers are the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.evaluation.fake_rung import FakeRung, completion, no_step
from tools.client.completion import Completion
from tools.client.request import ChatRequest, Request
from tools.evaluation.agreement import agreement, equal_share, greedy_answers, prompts
from tools.evaluation.rung import Step


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 1.0),
        ([1, 2, 3, 4], [1, 2, 9, 4], 0.5),
        ([1, 2], [1, 2, 3, 4], 0.5),
        ([1, 2, 3, 4], [1, 2], 0.5),
        ([1], [2], 0.0),
        ([], [], 1.0),
        ([], [1], 0.0),
    ],
)
def test_the_share_of_equal_tokens_before_the_first_difference(
    one: Sequence[int], other: Sequence[int], share: float
) -> None:
    assert equal_share(one, other) == share


def test_the_mean_over_prompts() -> None:
    found = agreement([[1, 2], [3, 4]], [[1, 2], [3, 5]])
    assert (found.prompts, found.identical, found.equal_percent) == (2, 1, 75.0)


class ChattingRung(FakeRung):
    """Answers conversations."""

    async def complete_all(self, requests: Sequence[Request], step: Step) -> list[Completion]:
        self.asked.extend(requests)
        return [completion("ok" if index else "") for index in range(len(requests))]


def test_answers_are_greedy_and_without_the_tokenizers_special_tokens() -> None:
    rung = ChattingRung(leading=[1])
    answers = asyncio.run(greedy_answers(rung, no_step))
    assert answers == [[], *[[ord("o"), ord("k")]] * (len(prompts()) - 1)]
    assert all(isinstance(request, ChatRequest) and request.sampling["temperature"] == 0 for request in rung.asked)
