from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.engine.adapters.running import Baseline, Rein, baseline
from tests.engine.running import eventually
from tests.fixtures.tiny_model import CONTEXT
from tools.engine.accounting import Accounting
from tools.engine.adapters.transformers import TransformersAdapter
from tools.engine.errors import EngineDeadError, LaunchError, RequestError
from tools.engine.limits import Limits
from tools.wire.launch import EngineLaunch
from tools.wire.messages import Flags, Request, Tokenize

pytestmark = pytest.mark.anyio

PROMPTS = (
    "The quick brown fox",
    "你好，世界",
    "x",
    "one two three four five six seven eight nine ten one two three four five six",
)


@pytest.fixture(scope="module")
def bare(model_folder: Path) -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(str(model_folder), dtype=torch.float32)


def bare_tokens(bare: Any, ids: list[int], count: int) -> list[int]:
    """What transformers itself generates, greedily."""
    given = torch.tensor([ids])
    made = bare.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=count, do_sample=False)
    return list(made[0, len(ids) :].tolist())


def bare_text(running: Baseline, ids: list[int], made: list[int]) -> str:
    """Text of `made` after the prompt `ids`, without bytes that make no character at its end."""
    before, whole = (running.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in (ids, ids + made))
    return str(whole[len(before) :]).rstrip("\ufffd")


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
async def test_greedy_answers_are_those_of_transformers_alone(model_folder: Path, bare: Any, attention: str) -> None:
    async with baseline(model_folder, batching=False, attention=attention) as running:
        for prompt in PROMPTS:
            answer = await running.ask(prompt, temperature=0, max_tokens=24)
            ids = running.tokenizer.encode(prompt)
            assert answer.text == bare_text(running, ids, bare_tokens(bare, ids, 24))
            assert (answer.tokens, answer.finish_reason) == (24, "length")


@pytest.mark.slow
async def test_in_a_batch_every_row_answers_as_it_would_alone(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        alone = [await running.ask(prompt, temperature=0, max_tokens=24) for prompt in PROMPTS]
        works = [running.work(i, prompt, temperature=0, max_tokens=24) for i, prompt in enumerate(PROMPTS)]
        together = await running.run(works)
        assert [answer.text for answer in together] == [answer.text for answer in alone]
        assert running.order[-8:] == [0, 1, 2, 3] * 2, "a batch goes forward one token for every row"


async def test_every_token_is_a_delta_and_only_the_last_is_final(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        answer = await running.ask("The quick brown fox", temperature=0, max_tokens=5)
        assert [delta.token_counts for delta in answer.deltas] == [[1]] * 5
        assert [delta.final for delta in answer.deltas] == [False] * 4 + [True]
        assert [delta.finish_reasons for delta in answer.deltas] == [[None]] * 4 + [["length"]]
        assert {delta.num_input_tokens for delta in answer.deltas} == {len(running.tokenizer.encode(PROMPTS[0]))}


async def test_max_tokens_defaults_to_16(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        assert (await running.ask("x", ignore_eos=True)).tokens == 16


async def test_given_tokens_are_the_prompt(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        expected = await running.ask(PROMPTS[0], temperature=0)
        request = Request(2, "", "ignored", running.tokenizer.encode(PROMPTS[0]), parameters='{"temperature": 0}')
        work = running.work(2, "x")
        work.request, (work.params, _) = request, running.adapter.prepare(request)
        (answer,) = await running.run([work])
        assert answer.text == expected.text


async def test_each_row_ends_by_itself(model_folder: Path, bare: Any) -> None:
    async with baseline(model_folder) as running:
        ids = running.tokenizer.encode(PROMPTS[0])
        made = bare_tokens(bare, ids, 12)
        fifth = made[4]
        assert fifth not in made[:4]
        works = [
            running.work(0, PROMPTS[0], temperature=0, max_tokens=3),
            running.work(1, PROMPTS[0], temperature=0, max_tokens=12, stop_token_ids=[fifth]),
            running.work(2, PROMPTS[0], temperature=0, max_tokens=12),
        ]
        short, stopped, whole = await running.run(works)
        assert (short.tokens, short.finish_reason) == (3, "length")
        assert (stopped.tokens, stopped.finish_reason) == (5, "stop")
        assert (whole.tokens, whole.finish_reason) == (12, "length")
        assert stopped.text == bare_text(running, ids, made[:4]), "the token that ends the text is not part of it"
        assert whole.text == bare_text(running, ids, made)


async def test_a_stop_string_ends_the_text_before_itself(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        whole = (await running.ask(PROMPTS[0], temperature=0, max_tokens=24)).text
        stop = whole[6:9]
        answer = await running.ask(PROMPTS[0], temperature=0, max_tokens=24, stop=[stop])
        assert answer.finish_reason == "stop"
        assert answer.text == whole[: whole.index(stop)]
        assert answer.tokens < 24


async def test_min_tokens_puts_off_every_kind_of_stop(model_folder: Path, bare: Any) -> None:
    async with baseline(model_folder) as running:
        ids = running.tokenizer.encode(PROMPTS[0])
        first = bare_tokens(bare, ids, 1)[0]
        answer = await running.ask(PROMPTS[0], temperature=0, max_tokens=9, min_tokens=6, stop_token_ids=[first])
        assert answer.tokens >= 6
        letters = [chr(code) for code in range(33, 127)]
        answer = await running.ask(PROMPTS[0], temperature=0, max_tokens=24, min_tokens=6, stop=letters)
        assert answer.tokens > 6


async def test_the_eos_tokens_of_the_generation_config_end_the_text(
    model_folder: Path, bare: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    async with baseline(model_folder) as running:
        ids = running.tokenizer.encode(PROMPTS[0])
    made = bare_tokens(bare, ids, 12)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, made[6]]}), encoding="utf-8")
    async with baseline(folder) as running:
        answer = await running.ask(PROMPTS[0], temperature=0, max_tokens=12)
        assert (answer.tokens, answer.finish_reason) == (made.index(made[6]) + 1, "stop")
        ignoring = await running.ask(PROMPTS[0], temperature=0, max_tokens=12, ignore_eos=True)
        assert (ignoring.tokens, ignoring.finish_reason) == (12, "length")


@pytest.mark.slow
async def test_sampling_with_a_seed_does_not_depend_on_the_batch(model_folder: Path) -> None:
    parameters = {"temperature": 1.5, "top_p": 0.9, "top_k": 50, "min_p": 0.001, "max_tokens": 20, "ignore_eos": True}
    async with baseline(model_folder) as running:
        alone = await running.ask(PROMPTS[0], seed=7, **parameters)
        works = [running.work(i, prompt, seed=i, **parameters) for i, prompt in enumerate(PROMPTS[1:])]
        *_, together = await running.run([*works, running.work(9, PROMPTS[0], seed=7, **parameters)])
        other = await running.ask(PROMPTS[0], seed=8, **parameters)
        assert together.text == alone.text
        assert other.text != alone.text


async def test_without_a_seed_two_answers_differ(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        works = [running.work(i, PROMPTS[0], temperature=2, max_tokens=24) for i in range(2)]
        first, second = await running.run(works)
        assert first.text != second.text


async def test_greedy_and_sampled_rows_share_a_batch(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        alone = await running.ask(PROMPTS[2], temperature=0, max_tokens=20)
        works = [running.work(0, PROMPTS[3], temperature=2), running.work(1, PROMPTS[2], temperature=0, max_tokens=20)]
        assert (await running.run(works))[1].text == alone.text


@pytest.mark.slow
async def test_one_candidate_is_the_greedy_choice(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        greedy = await running.ask(PROMPTS[0], temperature=0, max_tokens=20)
        for narrow in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
            assert (await running.ask(PROMPTS[0], temperature=1, max_tokens=20, **narrow)).text == greedy.text


@pytest.mark.slow
async def test_padding_is_not_penalised_as_a_repetition(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        parameters = {"temperature": 0, "max_tokens": 20, "repetition_penalty": 1.8}
        alone = await running.ask("x", **parameters)
        plain = await running.ask("x", temperature=0, max_tokens=20)
        works = [running.work(0, PROMPTS[3], **parameters), running.work(1, "x", **parameters)]
        assert alone.text != plain.text
        assert (await running.run(works))[1].text == alone.text


# Cancellation


async def test_a_cancelled_row_stops_at_the_next_token_and_the_others_go_on(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        whole = await running.ask(PROMPTS[0], temperature=0, max_tokens=8)
        rein = Rein(running.model)
        works = [running.work(i, PROMPTS[0], temperature=0, max_tokens=8) for i in range(2)]
        task = asyncio.create_task(running.run(works))
        rein.allow(3)
        await eventually(lambda: rein.waits == 4)
        works[0].cancelled = True
        rein.release()
        gone, stays = await task
        assert (gone.tokens, gone.ended) == (3, False)
        assert (stays.text, stays.ended) == (whole.text, True)


async def test_a_cancelled_request_frees_the_model_at_the_next_token(model_folder: Path) -> None:
    async with baseline(model_folder, batching=False) as running:
        rein = Rein(running.model)
        task = asyncio.create_task(running.run([running.work(0, PROMPTS[0], temperature=0, max_tokens=100)]))
        rein.allow(3)
        await eventually(lambda: rein.waits == 4)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done(), "the model is still in use"
        rein.allow(1)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.answers[0].tokens == 3
        assert rein.waits == 4, "no token is generated after the one that was under way"
        rein.release()
        assert (await running.ask("x", temperature=0, max_tokens=4)).tokens == 4


async def test_a_request_that_waits_can_be_cancelled(model_folder: Path) -> None:
    async with baseline(model_folder, batching=False) as running:
        rein = Rein(running.model)
        first = asyncio.create_task(running.run([running.work(0, "x", temperature=0, max_tokens=4)]))
        second = asyncio.create_task(running.run([running.work(1, "x", temperature=0, max_tokens=4)]))
        await eventually(lambda: rein.waits == 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        rein.release()
        assert (await first)[0].tokens == 4
        assert running.answers[1].tokens == 0


# One at a time, or together


async def test_without_batching_a_group_is_generated_one_after_the_other(model_folder: Path) -> None:
    async with baseline(model_folder, batching=False) as running:
        works = [running.work(i, PROMPTS[0], temperature=0, max_tokens=4) for i in range(3)]
        await running.run(works)
        assert running.order == [0] * 4 + [1] * 4 + [2] * 4
        assert works[0].queued_s < works[1].queued_s < works[2].queued_s


async def test_two_groups_never_generate_at_the_same_time(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        groups = [[running.work(i, "x", temperature=0, max_tokens=6)] for i in range(2)]
        await asyncio.gather(*(running.run(group) for group in groups))
        assert running.order == [0] * 6 + [1] * 6


async def test_what_waits_for_its_turn_counts_as_waiting(model_folder: Path) -> None:
    async with baseline(model_folder, batching=False) as running:
        accounting = Accounting()
        running.adapter._accounting = accounting
        rein = Rein(running.model)
        tasks = [asyncio.create_task(running.run([running.work(i, "x", max_tokens=2)])) for i in range(2)]
        await eventually(lambda: rein.waits == 1)
        running.adapter.refresh_gauges(waiting=5, running=2)
        gauges = {sample.name: sample.value for sample in accounting.take()}
        assert gauges["vllm:num_requests_running"] == gauges["ladder_requests_running"] == 1
        assert gauges["vllm:num_requests_waiting"] == gauges["ladder_requests_waiting"] == 6
        # A process that has imported torch holds more than this, and a machine less than that.
        assert 2**26 < gauges["ladder_peak_memory_bytes"] < 2**40
        rein.release()
        await asyncio.gather(*tasks)


# What it says of itself, and what it refuses


async def test_info_says_what_runs(model_folder: Path) -> None:
    for batching, at_once, words in ((True, 8, "batches of up to 8"), (False, 1, "one request at a time")):
        arguments = {"model": str(model_folder), "attention": "flash_attention_2", "batching": batching}
        launch = EngineLaunch(
            "transformers", "llm_baseline", "3", "", "", {**arguments, "max_model_len": 64}, {"MAX_BATCH_SIZE": "8"}
        )
        adapter = TransformersAdapter(launch, Limits())
        info = await adapter.start(Accounting())
        assert (info.engine, info.max_model_len, info.max_num_seqs) == ("transformers", 64, at_once)
        assert info.description.startswith("generate, bfloat16, attention sdpa (instead of flash_attention_2: ")
        assert info.description.endswith(words)
        await adapter.stop()


def test_a_broken_batch_size_is_named() -> None:
    arguments = {"model": "m", "attention": "sdpa", "batching": True, "max_model_len": 64}
    launch = EngineLaunch("transformers", "llm_baseline", "3", "", "", arguments, {"MAX_BATCH_SIZE": "0"})
    with pytest.raises(LaunchError, match='parameter "MAX_BATCH_SIZE" is "0": write a whole number, 1 or more'):
        TransformersAdapter(launch, Limits())


async def test_a_prompt_must_fit_the_context_and_shortens_the_answer(model_folder: Path) -> None:
    async with baseline(model_folder, max_model_len=20) as running:
        answer = await running.ask("x" * 15, temperature=0, max_tokens=100, ignore_eos=True)
        assert (answer.tokens, answer.finish_reason) == (5, "length")
        with pytest.raises(RequestError) as refused:
            running.work(1, "x" * 20)
        assert str(refused.value) == (
            '"text_input" has 20 tokens: the context takes 20, of which at least one is for the answer, so at most 19'
        )
        assert refused.value.code == "INVALID_ARG"


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"images": [b"x"]}, "UNSUPPORTED", 'input "image" is not supported by "llm_baseline": use "llm_bf16"'),
        (
            {"embedding": "{}"},
            "UNSUPPORTED",
            'input "embedding_request" is not supported by "llm_baseline": use "llm_bf16"',
        ),
        (
            {"flags": Flags(logprobs=True)},
            "UNSUPPORTED",
            'input "return_logprobs" is not supported by "llm_baseline": use "llm_bf16"',
        ),
        (
            {"flags": Flags(cumulative_logprob=True)},
            "UNSUPPORTED",
            'input "return_cumulative_logprob" is not supported by "llm_baseline": use "llm_bf16"',
        ),
        (
            {"parameters": '{"logit_bias": {"1": 5}}'},
            "UNSUPPORTED",
            'sampling parameter "logit_bias" is not supported by "llm_baseline": use "llm_bf16"',
        ),
        (
            {"parameters": '{"max_tokens": 9000}'},
            "INVALID_ARG",
            'sampling parameter "max_tokens" is 9000: it takes a whole number, at least 1 and at most 2048',
        ),
        (
            {"parameters": '{"stop_token_ids": [1, 340]}'},
            "INVALID_ARG",
            'sampling parameter "stop_token_ids" has the token 340: the vocabulary is 0 to 339',
        ),
        ({"token_ids": [1, 340]}, "INVALID_ARG", '"input_ids" has the token 340: the vocabulary is 0 to 339'),
        ({"token_ids": []}, "INVALID_ARG", '"input_ids" is empty: a prompt needs at least one token'),
        ({"prompt": ""}, "INVALID_ARG", '"text_input" is empty: a prompt needs at least one character'),
    ],
)
async def test_refusals_name_what_is_wrong(model_folder: Path, changes: dict[str, Any], code: str, says: str) -> None:
    async with baseline(model_folder, limits=Limits(max_tokens_limit=2048)) as running:
        with pytest.raises(RequestError) as refused:
            running.adapter.prepare(Request(**{"key": 1, "request_id": "", "prompt": "x", **changes}))
        assert (refused.value.code, str(refused.value)) == (code, says)


async def test_it_leaves_chats_to_the_tokenizer(model_folder: Path) -> None:
    async with baseline(model_folder) as running:
        failure = running.adapter.tokenize(Tokenize(4, "[]", None)).failure
        assert failure is not None
        assert failure.message == 'engine "transformers" does not render chats: send them to "chat_tokenizer"'


# Faults


async def test_a_failed_call_fails_its_batch_only(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with baseline(model_folder) as running:
        with monkeypatch.context() as patch:
            patch.setattr(running.model, "generate", raising(RuntimeError("out of memory")))
            with pytest.raises(RuntimeError, match="out of memory"):
                await running.ask("x")
        assert (await running.ask("x", temperature=0, max_tokens=3)).tokens == 3


async def test_a_broken_gpu_ends_the_engine(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with baseline(model_folder) as running:
        monkeypatch.setattr(running.model, "generate", raising(RuntimeError("CUDA error: an illegal memory access")))
        with pytest.raises(EngineDeadError, match="the GPU cannot be used any more: CUDA error: an illegal"):
            await running.ask("x")


def raising(error: Exception) -> Any:
    def generate(*_: object, **__: object) -> None:
        raise error

    return generate


def test_the_context_of_the_tiny_model_is_what_the_tests_think(bare: Any) -> None:
    assert bare.config.max_position_embeddings == CONTEXT
