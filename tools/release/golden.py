"""The golden prompts: what both versions answer to them, and whether the new one's answers will do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from tools.client.address import Endpoint
from tools.client.async_client import AsyncClient
from tools.client.request import ChatRequest, Message, Target
from tools.evaluation.agreement import equal_share
from tools.evaluation.rung import ServedRung, leading_tokens

from .plan import Golden, GoldenPrompt

# As few as leave the users of the stable target alone.
_AT_ONCE: Final = 2


class Comparison(BaseModel):
    """What came of asking both versions. Scores are the percent of the answers with what is expected; None where no
    prompt expects anything. `equal_percent`: the mean share of tokens before the first difference.
    """

    model_config = ConfigDict(frozen=True)

    prompts: int
    equal_percent: float
    score: float | None
    stable_score: float | None

    def __str__(self) -> str:
        scores = (
            ""
            if self.score is None
            else f"; quality score {self.score:.0f} %, the stable version's is {self.stable_score:.0f} %"
        )
        return f"{self.prompts} golden prompts: {self.equal_percent:.0f} % of the tokens are equal{scores}"


def problem_of(golden: Golden, found: Comparison) -> str:
    """Why the new version is not good enough; empty when it is."""
    if found.equal_percent < golden.min_equal_percent:
        return f"{found}; the plan asks for {golden.min_equal_percent:g} % equal tokens"
    if (
        found.score is not None
        and found.stable_score is not None
        and found.stable_score - found.score > golden.max_score_drop_points
    ):
        return f"{found}; the plan allows it to be {golden.max_score_drop_points:g} points lower"
    return ""


def score(prompts: Sequence[GoldenPrompt], answers: Sequence[str]) -> float | None:
    """Percent of the answers to prompts that expect something which hold it."""
    held = [
        prompt.expect.casefold() in answer.casefold()
        for prompt, answer in zip(prompts, answers, strict=True)
        if prompt.expect is not None
    ]
    return 100 * sum(held) / len(held) if held else None


async def compare(endpoint: Endpoint, target: Target, stable: Target, golden: Golden) -> Comparison:
    """Ask both versions, greedily. Raises ClientError when one of them does not answer."""
    async with AsyncClient(endpoint) as client:
        rungs = [
            ServedRung(
                client, model, await asyncio.to_thread(client.server.contract, model), _AT_ONCE, golden.deadline_s
            )
            for model in (target, stable)
        ]
        texts, stable_texts = [await _answers(rung, golden) for rung in rungs]
        leading = len(await leading_tokens(rungs[0]))
        shares = [
            equal_share(await _tokens(rungs[0], one, leading), await _tokens(rungs[0], other, leading))
            for one, other in zip(texts, stable_texts, strict=True)
        ]
    return Comparison(
        prompts=len(shares),
        equal_percent=100 * sum(shares) / len(shares),
        score=score(golden.prompts, texts),
        stable_score=score(golden.prompts, stable_texts),
    )


async def _answers(rung: ServedRung, golden: Golden) -> list[str]:
    sampling = {"temperature": 0.0, "max_tokens": golden.max_tokens}
    requests = [
        ChatRequest(messages=[Message("user", prompt.ask)], sampling=sampling, stream=False)
        for prompt in golden.prompts
    ]
    return [answer.text for answer in await rung.complete_all(requests, lambda: None)]


async def _tokens(rung: ServedRung, text: str, leading: int) -> list[int]:
    """Without the special tokens in front, which any two texts have in common. The tokenizer refuses an empty text."""
    return (await rung.tokenize(text))[leading:] if text else []
