"""Perplexity of a text that no model was made from: exp of the mean negative log-likelihood of its tokens.

The text is cut into windows that do not overlap, and within a window every token but the first is scored given all that
stand before it (https://huggingface.co/docs/transformers/perplexity, with a stride as long as the window). The engine
scores a whole window in one request: `prompt_logprobs` of the sampling parameters, and the output of that name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tools.client.completion import Completion
from tools.client.errors import RequestRefusedError
from tools.client.request import GenerateRequest

from .errors import EvaluationError, NotMeasurableError
from .results import Perplexity
from .rung import Rung, Step, leading_tokens

OUTPUT: Final = "prompt_logprobs"
_BETWEEN_WORDS: Final = re.compile(r"(?<=\S) (?=\S)")
# exp of more than this is no float any more; such a model is as broken as one can be.
_LARGEST_LOSS: Final = 700.0


class _TokenLogprob(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    logprob: float


_POSITIONS: Final = TypeAdapter(list[dict[int, _TokenLogprob] | None])


@dataclass(frozen=True)
class Window:
    """Tokens for one request; those before `first` are context only (special tokens, and the first of the text)."""

    token_ids: Sequence[int]
    first: int


def read_texts(path: Path) -> list[str]:
    """The text of a file, or of every *.txt in a folder, by name. Raises EvaluationError when there is none."""
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise EvaluationError(f'no *.txt in the folder "{path}": name a text file, or a folder that holds some')
    else:
        files = [path]
    return [_read(file) for file in files]


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise EvaluationError(f'no text file "{file}": name a UTF-8 file, or a folder of *.txt') from None
    except (OSError, UnicodeDecodeError) as error:
        raise EvaluationError(f'text file "{file}" cannot be read: {error}') from error
    if not text.strip():
        raise EvaluationError(f'text file "{file}" is empty: perplexity needs a text, some thousand words are good')
    return text


async def token_windows(rung: Rung, texts: Sequence[str], size: int) -> list[Window]:
    """The texts in windows of at most `size` tokens, each led by the tokenizer's own special tokens (a BOS).

    Raises ClientError when the server's tokenizer does not answer, EvaluationError when there is nothing to score.
    """
    leading = await leading_tokens(rung)
    windows: list[Window] = []
    for text in texts:
        windows.extend(_windows(await _encode(rung, text, len(leading)), leading, size))
    if not windows:
        raise EvaluationError("the text is a single token: perplexity needs at least two, give a longer --text")
    return windows


def _windows(ids: Sequence[int], leading: Sequence[int], size: int) -> Iterator[Window]:
    room = size - len(leading)
    for start in range(0, len(ids), room):
        token_ids = [*leading, *ids[start : start + room]]
        first = max(1, len(leading))
        if len(token_ids) > first:
            yield Window(token_ids, first)


async def _encode(rung: Rung, text: str, leading: int) -> list[int]:
    """The text's tokens without the first `leading` special ones; a text too long for one request is encoded in halves.

    At a cut the tokens may be other than the whole text's. Every rung is given the same ones.
    """
    try:
        return (await rung.tokenize(text))[leading:]
    except RequestRefusedError:
        cut = cut_near_the_middle(text)
        if cut is None:
            raise
    return [*await _encode(rung, text[:cut], leading), *await _encode(rung, text[cut:], leading)]


def cut_near_the_middle(text: str) -> int | None:
    """Where to cut a text in two: before the space between two words, where byte-level tokenizers part it anyway.

    In the middle where there is no such space; None for a text of less than two characters.
    """
    middle = len(text) // 2
    before = [found.start() for found in _BETWEEN_WORDS.finditer(text) if found.start() > 0]
    return min(before, key=lambda position: abs(position - middle), default=middle or None)


async def measure_perplexity(rung: Rung, windows: Sequence[Window], text: str, step: Step) -> Perplexity:
    """Score every window; `text` names what they were cut from.

    Raises NotMeasurableError for a model that does not hand out log-probabilities of the prompt, ClientError when the
    server fails, EvaluationError when it sends something else.
    """
    if OUTPUT not in rung.contract.outputs:
        raise NotMeasurableError(f'it has no output "{OUTPUT}"')
    answers = await rung.complete_all([_request(window) for window in windows], step)
    losses = [loss for window, answer in zip(windows, answers, strict=True) for loss in _losses(window, answer)]
    loss = sum(losses) / len(losses)
    return Perplexity(
        text=text,
        windows=len(windows),
        tokens=len(losses),
        loss=loss,
        perplexity=math.exp(min(loss, _LARGEST_LOSS)),
    )


def _request(window: Window) -> GenerateRequest:
    return GenerateRequest(
        prompt="",
        input_ids=window.token_ids,
        # 0 alternatives: only the tokens that are there. One token must be generated.
        sampling={"prompt_logprobs": 0, "max_tokens": 1, "temperature": 0.0},
        stream=False,
        return_logprobs=True,
    )


def _losses(window: Window, answer: Completion) -> Iterator[float]:
    """Negative log-likelihoods in nats."""
    try:
        positions = _POSITIONS.validate_json(answer.prompt_logprobs or "null")
    except ValidationError as error:
        raise EvaluationError(
            f'the output "{OUTPUT}" of "{answer.served_by}" is not a list of log-probabilities: {error}'
        ) from error
    if len(positions) != len(window.token_ids):
        raise EvaluationError(
            f'the output "{OUTPUT}" of "{answer.served_by}" has {len(positions)} entries for a prompt of '
            f"{len(window.token_ids)} tokens: report this as a bug"
        )
    for token, position in list(zip(window.token_ids, positions, strict=True))[window.first :]:
        if position is None or token not in position:
            raise EvaluationError(
                f'the output "{OUTPUT}" of "{answer.served_by}" says nothing of token {token}: report this as a bug'
            )
        yield -position[token].logprob
