from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from tools.engine.adapters.base import Work
from tools.engine.generation.picking import RowPicker
from tools.engine.generation.rows import Prompt, Row
from tools.engine.generation.sampling import Sampling
from tools.wire.messages import Request

PAD = 0
VOCABULARY = 6
SCORES = (1.0, 2.0, 3.0, -1.0, 0.5, 2.5)


@pytest.fixture(scope="module")
def backend(chatml_folder: Path) -> Any:
    return Tokenizer.from_file(str(chatml_folder / "tokenizer.json"))


def row(backend: Any, token_ids: list[int], stop_ids: Sequence[int] = (), **sampling: Any) -> Row:
    prompt = Prompt(token_ids, Sampling(**sampling), 16, frozenset(stop_ids))
    return Row(Work(Request(1, "", ""), "request", prompt), backend)


def pick(rows: list[Row], generated: Sequence[Sequence[int]] | None = None) -> Any:
    """Scores of each row after one step, all rows having had `SCORES`."""
    longest = max(len(each.prompt.token_ids) for each in rows)
    picker = RowPicker(rows, longest, "cpu")
    ids = [[PAD] * (longest - len(each.prompt.token_ids)) + each.prompt.token_ids for each in rows]
    for i, more in enumerate(generated or []):
        ids[i] += more
    return picker(torch.tensor(ids), torch.tensor([SCORES] * len(rows)))


def test_a_greedy_row_is_left_as_it_is(backend: Any) -> None:
    assert pick([row(backend, [1], temperature=0)]).tolist() == [list(SCORES)]


def test_what_the_row_holds_is_penalised_and_its_padding_is_not(backend: Any) -> None:
    rows = [row(backend, [4, 4, 4, 4], temperature=0), row(backend, [1, 3], temperature=0, repetition_penalty=2.0)]
    assert pick(rows, [[5], [5]]).tolist() == [list(SCORES), [1.0, 1.0, 3.0, -2.0, 0.5, 1.25]]


def test_tokens_that_end_the_text_are_ruled_out_until_min_tokens(backend: Any) -> None:
    short = row(backend, [1], stop_ids=[2, 5], temperature=0, min_tokens=1)
    assert pick([short]).tolist() == [[1.0, 2.0, -math.inf, -1.0, 0.5, -math.inf]]
    short.count = 1
    assert pick([short]).tolist() == [list(SCORES)]


def test_a_row_that_samples_has_one_candidate(backend: Any) -> None:
    rows = [row(backend, [1], temperature=0), row(backend, [1], seed=3)]
    greedy, sampled = pick(rows).tolist()
    assert greedy == list(SCORES)
    assert sum(score == 0.0 for score in sampled) == 1
    assert sum(score == -math.inf for score in sampled) == VOCABULARY - 1


def test_a_row_that_has_ended_is_left_as_it_is(backend: Any) -> None:
    ended = row(backend, [1], seed=3)
    ended.done = True
    assert pick([ended]).tolist() == [list(SCORES)]


@pytest.mark.parametrize(
    ("sampling", "possible"),
    [
        ({"temperature": 2.0}, {0, 1, 2, 3, 4, 5}),
        ({"top_k": 2}, {2, 5}),
        # The likeliest two have 0.45 and 0.27 of it.
        ({"top_p": 0.6}, {2, 5}),
        # Within a factor of e^-1 of the likeliest.
        ({"min_p": 0.36}, {1, 2, 5}),
        ({"min_p": 0.36, "temperature": 0.4}, {2}),
        ({"top_k": 3, "top_p": 0.3}, {2}),
    ],
)
def test_only_what_the_parameters_leave_is_picked(backend: Any, sampling: dict[str, Any], possible: set[int]) -> None:
    picked = {pick([row(backend, [1], seed=seed, **sampling)]).argmax().item() for seed in range(300)}
    assert picked == possible


@pytest.mark.slow
def test_tokens_are_picked_as_often_as_they_are_likely(backend: Any) -> None:
    picker = RowPicker([row(backend, [1], seed=5)], 1, "cpu")
    counts = [0] * VOCABULARY
    for _ in range(2000):
        counts[picker(torch.tensor([[1]]), torch.tensor([SCORES])).argmax().item()] += 1
    likely = torch.tensor(SCORES).softmax(0).tolist()
    for count, share in zip(counts, likely, strict=True):
        assert count / 2000 == pytest.approx(share, abs=0.05)
