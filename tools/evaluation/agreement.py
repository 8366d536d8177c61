"""Agreement of greedy answers with those of the reference rung: how far both write the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.client.request import ChatRequest, Message

from .results import Agreement
from .rung import Rung, Step, leading_tokens

PROMPTS: Final = Path(__file__).parent / "data" / "prompts.yaml"
_TOKENS: Final = 64


def prompts() -> list[str]:
    """The questions that every rung is asked."""
    return list(yaml.safe_load(PROMPTS.read_text(encoding="utf-8")))


async def greedy_answers(rung: Rung, step: Step) -> list[list[int]]:
    """The tokens of the rung's answers.

    Not every engine hands out tokens, so the texts are encoded again, by the server's tokenizer. Raises ClientError.
    """
    leading = len(await leading_tokens(rung))
    sampling = {"temperature": 0.0, "max_tokens": _TOKENS}
    requests = [
        ChatRequest(messages=[Message("user", prompt)], sampling=sampling, stream=False) for prompt in prompts()
    ]
    texts = [answer.text for answer in await rung.complete_all(requests, step)]
    # The tokenizer refuses an empty text.
    return [(await rung.tokenize(text))[leading:] if text else [] for text in texts]


def agreement(reference: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> Agreement:
    """Compare answers prompt by prompt, tokens in the reference's order."""
    shares = [equal_share(wanted, got) for wanted, got in zip(reference, answers, strict=True)]
    return Agreement(
        prompts=len(shares),
        identical=sum(share == 1 for share in shares),
        equal_percent=100 * sum(shares) / len(shares),
    )


def equal_share(one: Sequence[int], other: Sequence[int]) -> float:
    """Tokens before the first difference, as a share of the longer answer: where one ends, the other differs."""
    longest = max(len(one), len(other))
    equal = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return equal / longest if longest else 1.0
