from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tools.engine.accounting import Accounting
from tools.engine.adapters.base import EngineInfo, Work
from tools.engine.adapters.mock import MockAdapter, mock_tokens
from tools.engine.errors import LaunchError, RequestError
from tools.wire.messages import Delta, Request

pytestmark = pytest.mark.anyio


def work(adapter: MockAdapter, key: int, prompt: str, parameters: str = "{}") -> Work:
    request = Request(key, "", prompt, parameters=parameters)
    params, sequences = adapter.prepare(request)
    return Work(request, f"r{key}", params, sequences)


async def generate(adapter: MockAdapter, *works: Work) -> list[Delta]:
    deltas: list[Delta] = []
    await adapter.start(Accounting())
    async with asyncio.timeout(30):
        await adapter.generate(works, lambda _, delta: deltas.append(delta))
    await adapter.stop()
    return deltas


def test_the_answer_repeats_the_prompt() -> None:
    assert mock_tokens("a b  c", 5) == ["a ", "b ", "c ", "a ", "b "]
    assert mock_tokens("", 2) == ["ok ", "ok "]


async def test_it_says_what_its_model_json_says() -> None:
    adapter = MockAdapter({"max_num_seqs": 3, "max_model_len": 9})
    assert await adapter.start(Accounting()) == EngineInfo("mock", 9, 3)
    await adapter.stop()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"step": 1}, "unknown field `step`"), ({"step_s": "fast"}, "Expected `float`, got `str` - at `$.step_s`")],
)
def test_a_wrong_model_json_ends_the_start(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(LaunchError, match=r"^model\.json of a mock engine: ") as caught:
        MockAdapter(arguments)
    assert problem in str(caught.value)


async def test_several_tokens_a_step() -> None:
    adapter = MockAdapter({"tokens_per_step": 3})
    deltas = await generate(adapter, work(adapter, 1, "a b", '{"max_tokens": 7}'))
    assert [delta.token_counts for delta in deltas] == [[3], [3], [1]]
    assert [delta.texts[0] for delta in deltas] == ["a b a ", "b a b ", "a "]
    assert [(delta.final, delta.finish_reasons) for delta in deltas] == [
        (False, [None]), (False, [None]), (True, ["length"]),
    ]  # fmt: skip


async def test_one_of_a_group_that_is_cancelled_ends_alone() -> None:
    adapter = MockAdapter({})
    gone, stays = work(adapter, 1, "a"), work(adapter, 2, "b")
    gone.cancelled = True
    deltas = await generate(adapter, gone, stays)
    assert {delta.key for delta in deltas} == {2}
    assert deltas[-1].final


async def test_an_endless_answer_costs_only_what_is_generated() -> None:
    adapter = MockAdapter({"tokens_per_step": 1})
    endless = work(adapter, 1, "a", '{"max_tokens": 2147483647}')
    deltas: list[Delta] = []

    def emit(_: Work, delta: Delta) -> None:
        deltas.append(delta)
        endless.cancelled = len(deltas) == 3

    await adapter.start(Accounting())
    async with asyncio.timeout(30):
        await adapter.generate([endless], emit)
    await adapter.stop()
    assert [delta.texts for delta in deltas] == [["a "]] * 3


def test_a_prompt_has_to_leave_room_for_an_answer() -> None:
    adapter = MockAdapter({"max_model_len": 3})
    adapter.prepare(Request(1, "", "a b"))
    with pytest.raises(RequestError, match='"text_input" has 3 tokens: the context takes at most 2'):
        adapter.prepare(Request(1, "", "a b c"))
