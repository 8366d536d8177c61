"""What the adapter takes of vLLM is there and means what the adapter thinks; generation itself is tested end to end.

Importing vLLM takes seconds, so this runs with the end-to-end tests.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tools.engine.accounting import Accounting
from tools.engine.errors import LaunchError, RequestError
from tools.engine.limits import Limits
from tools.engine.parameters import SAMPLING_RULES, parse_parameters
from tools.wire.launch import EngineLaunch
from tools.wire.messages import Delta, Sample

if TYPE_CHECKING:
    from tools.engine.adapters import vllm as adapter_module

pytestmark = [pytest.mark.e2e, pytest.mark.light]


@pytest.fixture(scope="module")
def adapter() -> adapter_module:
    from tools.engine.adapters import vllm

    return vllm


# Names and signatures


def fields(kind: type) -> set[str]:
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(getattr(kind, "__struct_fields__", ())) or set(inspect.signature(kind).parameters)


def test_the_engine_can_do_what_is_asked_of_it(adapter: adapter_module) -> None:
    engine = adapter.AsyncLLM
    for name in ("from_engine_args", "get_supported_tasks", "get_tokenizer", "errored", "dead_error", "shutdown"):
        assert hasattr(engine, name), name
    assert {"lora_request", "priority"} <= set(inspect.signature(engine.generate).parameters)
    assert {"stat_loggers"} <= set(inspect.signature(engine.from_engine_args).parameters)
    assert [*inspect.signature(engine.encode).parameters][:4] == ["self", "prompt", "pooling_params", "request_id"]


def test_the_platform_says_where_the_weights_are() -> None:
    import torch
    from vllm.platforms import current_platform

    assert current_platform.is_cuda_alike() is torch.cuda.is_available()


def test_outputs_and_statistics_have_the_fields_that_are_read() -> None:
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.v1.metrics.stats import IterationStats, SchedulerStats
    from vllm.v1.spec_decode.metrics import SpecDecodingStats

    assert {"prompt_token_ids", "outputs", "finished", "metrics"} <= fields(RequestOutput)
    assert {"index", "text", "token_ids", "cumulative_logprob", "logprobs", "finish_reason"} <= fields(CompletionOutput)
    assert {
        "num_waiting_reqs", "num_skipped_waiting_reqs", "kv_cache_usage", "prefix_cache_stats", "spec_decoding_stats",
    } <= fields(SchedulerStats)  # fmt: skip
    assert hasattr(IterationStats(), "num_preempted_reqs")
    assert {
        "num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos",
    } <= fields(SpecDecodingStats)  # fmt: skip


def test_the_stat_logger_leaves_no_method_of_vllms_own(adapter: adapter_module) -> None:
    """One that it forgot would touch Prometheus metrics that were never made."""
    from vllm.v1.metrics.loggers import PrometheusStatLogger, StatLoggerBase

    logger = adapter._logger_class(adapter._SchedulerStats())
    assert issubclass(logger, PrometheusStatLogger)
    for name, _ in inspect.getmembers(StatLoggerBase, inspect.isfunction):
        assert name in vars(logger), name


def test_the_stat_logger_takes_what_vllm_gives(adapter: adapter_module) -> None:
    from vllm.v1.metrics.loggers import StatLoggerBase

    logger = adapter._logger_class(adapter._SchedulerStats())
    wanted = inspect.signature(StatLoggerBase.record).parameters
    assert set(wanted) <= set(inspect.signature(logger.record).parameters)
    logger(None, [0]).record(scheduler_stats=None, iteration_stats=None, mm_cache_stats=None, engine_idx=0)


# Parameters


def test_every_rule_is_a_parameter_of_vllm(adapter: adapter_module) -> None:
    assert set(adapter._rules(Limits())) == set(SAMPLING_RULES)


def test_the_limit_of_the_model_caps_max_tokens(adapter: adapter_module) -> None:
    rules = adapter._rules(Limits(max_tokens_limit=5))
    assert parse_parameters('{"max_tokens": 5}', "sampling_parameters", rules) == {"max_tokens": 5}
    with pytest.raises(RequestError) as caught:
        parse_parameters('{"max_tokens": 6}', "sampling_parameters", rules)
    assert str(caught.value) == (
        'sampling parameter "max_tokens" is 6: it takes a whole number, at least 1 and at most 5'
    )


EVERYTHING: dict[str, Any] = {
    "n": 2, "presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1000, "temperature": 2, "top_p": 1,
    "top_k": 2**31 - 1, "min_p": 1, "seed": 2**63 - 1, "stop": "a", "stop_token_ids": [1], "bad_words": ["b"],
    "include_stop_str_in_output": True, "ignore_eos": True, "max_tokens": 2**31 - 1, "min_tokens": 0, "logprobs": 20,
    "prompt_logprobs": 1, "detokenize": True, "skip_special_tokens": False, "spaces_between_special_tokens": False,
    "structured_outputs": {"regex": "a+"}, "logit_bias": {"5": -1}, "allowed_token_ids": [5],
}  # fmt: skip


def test_what_the_rules_let_through_vllm_takes(adapter: adapter_module) -> None:
    """Each alone and all together, at the edges of their ranges."""
    assert set(EVERYTHING) == set(SAMPLING_RULES) - {"lora_name"}
    for given in [EVERYTHING, *({name: value} for name, value in EVERYTHING.items())]:
        read = parse_parameters(json.dumps(given), "sampling_parameters", adapter._rules(Limits()))
        made = adapter._sampling_params(dict(read))
        for name in set(given) - {"structured_outputs"}:
            assert getattr(made, name) == read[name], name


def test_what_vllm_refuses_is_the_clients_to_mend(adapter: adapter_module) -> None:
    with pytest.raises(RequestError, match=r"^vLLM refuses the sampling parameters: .*min_tokens") as caught:
        adapter._sampling_params({"min_tokens": 5, "max_tokens": 2})
    assert caught.value.code == "INVALID_ARG"


def test_structured_outputs_are_checked_by_name(adapter: adapter_module) -> None:
    with pytest.raises(RequestError, match=r'"structured_outputs" has the key "regexp": known ones are .*regex'):
        adapter._sampling_params({"structured_outputs": {"regexp": "a"}})
    with pytest.raises(RequestError, match='"structured_outputs" is empty: give it one of json, regex'):
        adapter._sampling_params({"structured_outputs": {}})


def test_engine_arguments_that_vllm_does_not_have_end_the_start(adapter: adapter_module, tmp_path: Path) -> None:
    import asyncio

    launch = EngineLaunch("vllm", "m", "1", "/s", str(tmp_path), {"gpu_memory_utilisation": 0.5})
    with pytest.raises(LaunchError, match=r"^model\.json: vLLM .* does not take these engine arguments: .*utilisation"):
        asyncio.run(adapter.VllmAdapter(launch, Limits()).start(Accounting()))


# Outputs


def sequence(index: int, text: str, tokens: int, **values: Any) -> SimpleNamespace:
    defaults = {"finish_reason": None, "cumulative_logprob": None, "logprobs": None}
    return SimpleNamespace(index=index, text=text, token_ids=[1] * tokens, **{**defaults, **values})


def output(
    *sequences: SimpleNamespace, finished: bool = False, prompt_logprobs: list[Any] | None = None
) -> SimpleNamespace:
    return SimpleNamespace(
        outputs=list(sequences), prompt_token_ids=[1, 2, 3], prompt_logprobs=prompt_logprobs, finished=finished
    )


def test_sequences_without_news_have_empty_entries(adapter: adapter_module) -> None:
    delta = adapter._delta(7, output(sequence(2, "c", 1), sequence(0, "a", 2, finish_reason="stop")), 3, False, False)
    assert delta == Delta(7, ["a", "", "c"], [2, 0, 1], ["stop", None, None], 3)


def test_logprobs_are_json_even_of_what_cannot_be(adapter: adapter_module) -> None:
    entry = SimpleNamespace(logprob=float("-inf"), rank=9, decoded_token="é")
    sent = output(sequence(0, "a", 1, cumulative_logprob=-0.5, logprobs=[{5: entry}]), finished=True)
    delta = adapter._delta(7, sent, 1, True, True)
    assert delta.cumulative_logprobs == [-0.5]
    assert delta.final
    assert delta.logprobs is not None
    read = json.loads(delta.logprobs[0][0], parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert read == {"5": {"logprob": -9999.0, "rank": 9, "decoded_token": "é"}}


def test_the_prompts_logprobs_are_json_as_well(adapter: adapter_module) -> None:
    entry = SimpleNamespace(logprob=-0.25, rank=1, decoded_token="b")
    sent = output(sequence(0, "c", 1), prompt_logprobs=[None, {5: entry}])
    delta = adapter._delta(7, sent, 1, False, False)
    assert delta.prompt_logprobs is not None
    assert [json.loads(position) for position in delta.prompt_logprobs] == [
        None,
        {"5": {"logprob": -0.25, "rank": 1, "decoded_token": "b"}},
    ]


def test_the_schedulers_statistics_are_counted(adapter: adapter_module) -> None:
    stats = adapter._SchedulerStats()
    scheduler = SimpleNamespace(
        num_waiting_reqs=3,
        num_skipped_waiting_reqs=1,
        kv_cache_usage=0.25,
        prefix_cache_stats=SimpleNamespace(queries=10, hits=4),
        spec_decoding_stats=SimpleNamespace(
            num_drafts=2, num_draft_tokens=6, num_accepted_tokens=3, num_accepted_tokens_per_pos=[2, 1, 0]
        ),
    )
    stats.record(scheduler, SimpleNamespace(num_preempted_reqs=1))
    stats.record(None, None)
    assert (stats.waiting, stats.kv_cache_usage) == (4, 0.25)
    assert stats.accounting.take() == [
        Sample("vllm:prefix_cache_queries_total", 10),
        Sample("vllm:prefix_cache_hits_total", 4),
        Sample("vllm:spec_decode_num_drafts_total", 2),
        Sample("vllm:spec_decode_num_draft_tokens_total", 6),
        Sample("vllm:spec_decode_num_accepted_tokens_total", 3),
        Sample("vllm:spec_decode_num_accepted_tokens_per_pos_total", 2, "0"),
        Sample("vllm:spec_decode_num_accepted_tokens_per_pos_total", 1, "1"),
        Sample("vllm:num_preemptions_total", 1),
    ]
