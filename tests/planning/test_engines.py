from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.examples import BASELINE, ENGINE, engines, profile
from tools.planning.engines import Engine, Kind, engines_of, outside_share, tensor_parallel_problem
from tools.planning.errors import PlanningError
from tools.planning.overheads import COLLECTIVES, CUDA_CONTEXT
from tools.planning.units import GIB
from tools.planning.weights import Draft
from tools.spec.profile import Profile


def planned(name: str = "a100-llama2-7b", accelerator: str = "cuda", **changes: Any) -> dict[str, Engine]:
    found = engines_of(profile(name, **changes), Path("/nowhere"), accelerator, disabled_too=True)
    return {engine.label: engine for engine in found}


def test_only_enabled_variants_and_loaded_versions_are_planned() -> None:
    found = engines_of(profile("a100-llama2-7b"), Path("/nowhere"), "cuda")
    assert [engine.label for engine in found] == ["llm_baseline:3", "llm_bf16:1"]


def test_disabled_variants_are_planned_when_asked() -> None:
    assert list(planned()) == ["llm_baseline:3", "llm_bf16:1", "llm_awq:1", "llm_eagle:1"]


def test_an_engine_is_what_the_profile_says() -> None:
    found = planned()
    assert found["llm_bf16:1"] == ENGINE
    awq, eagle = found["llm_awq:1"], found["llm_eagle:1"]
    assert (awq.group_size, awq.dtype, awq.draft) == (128, "float16", None)
    assert (eagle.sequences, eagle.draft) == (16, Draft("eagle3", 32000))


def test_the_batching_baseline_holds_a_full_batch_and_the_others_one_request() -> None:
    found = planned("h200-llama2-7b")
    assert [found[f"llm_baseline:{number}"].sequences for number in (1, 2, 3)] == [1, 1, 8]
    assert found["llm_baseline:3"].baseline_cache(1024) == 8 * 1024 * GIB // 2048


def test_what_is_not_said_is_vllms_default() -> None:
    data = profile("cpu-smollm2").model_dump()
    for name in ("max_num_seqs", "gpu_memory_utilization"):
        del data["variants"]["llm_bf16"]["versions"][1][name]
    engines = engines_of(Profile.model_validate(data), Path("/nowhere"), "cuda")
    found = next(engine for engine in engines if engine.label == "llm_bf16:1")
    assert (found.sequences, found.batched_tokens, found.share, found.share_is_default) == (128, 2048, 0.92, True)


def test_on_cpu_the_cache_has_the_size_that_the_environment_says() -> None:
    engine = planned("cpu-smollm2", "cpu")["llm_bf16:1"]
    assert (engine.kv_space, engine.share, engine.block_tokens) == (GIB, None, 128)
    engine = planned("cpu-smollm2", "cuda")["llm_bf16:1"]
    assert (engine.kv_space, engine.share, engine.block_tokens) == (None, 0.3, 16)


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ({"kv_cache_dtype": "fp8_e4m3"}, "kv_element_bytes", 1),
        ({"kv_cache_dtype": "auto", "dtype": "float32"}, "kv_element_bytes", 4),
        ({"dtype": "half"}, "dtype", "float16"),
        ({"dtype": "auto"}, "dtype", "bfloat16"),
        ({"block_size": 32}, "block_tokens", 32),
        ({"max_num_batched_tokens": 8192}, "batched_tokens", 8192),
        ({"enforce_eager": True}, "eager", True),
        ({"kv_cache_memory_bytes": 123}, "kv_space", 123),
        ({"max_num_seqs": 2, "max_model_len": 512}, "batched_tokens", 1024),
    ],
)
def test_engine_arguments_are_followed(arguments: dict[str, Any], field: str, value: object) -> None:
    assert getattr(planned(llm_bf16=arguments)["llm_bf16:1"], field) == value


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kv_cache_dtype": "nvfp4"}, '"llm_bf16" version 1: "kv_cache_dtype" "nvfp4" is none this plan counts'),
        ({"dtype": "fp4"}, '"llm_bf16" version 1: "dtype" "fp4" is none of bfloat16, float16, float32'),
        ({"block_size": 0}, '"llm_bf16" version 1: "block_size" is 0: write a whole number, 1 or more'),
    ],
)
def test_arguments_that_cannot_be_planned_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanningError) as caught:
        planned(llm_bf16=arguments)
    assert str(caught.value).startswith(text)


def test_a_cache_space_that_is_no_number_is_refused() -> None:
    data = profile("cpu-smollm2").model_dump()
    data["variants"]["llm_bf16"]["environment"]["VLLM_CPU_KVCACHE_SPACE"] = "0.5"
    broken = Profile.model_validate(data)
    with pytest.raises(PlanningError, match=r'VLLM_CPU_KVCACHE_SPACE is "0\.5": vLLM takes a whole number of GiB'):
        engines_of(broken, Path("/nowhere"), "cpu")


def test_cuda_graphs_are_left_out_where_nothing_is_captured() -> None:
    assert Kind.GRAPHS in ENGINE.resident("cuda", 4096, 1)
    assert Kind.GRAPHS not in replace(ENGINE, eager=True).resident("cuda", 4096, 1)
    assert Kind.GRAPHS not in BASELINE.resident("cuda", 4096, 1)
    assert Kind.GRAPHS not in ENGINE.resident("cpu", 4096, 1)


def test_a_process_on_a_gpu_has_a_context_beside_its_share() -> None:
    assert [outside_share("cuda", degree) for degree in (1, 2)] == [CUDA_CONTEXT, CUDA_CONTEXT + COLLECTIVES]
    assert outside_share("cpu", 1) == 0


@pytest.mark.parametrize(
    ("engine", "degree", "problem"),
    [
        (ENGINE, 8, None),
        (replace(ENGINE, group_size=128), 2, None),
        (replace(ENGINE, group_size=128), 4, "11008 / 4 = 2752 rows are no whole groups of 128"),
        (replace(ENGINE, group_size=64), 4, None),
        (planned("cpu-smollm2")["llm_bf16:1"], 2, "9 heads do not divide by 2"),
        (
            replace(ENGINE, architecture=replace(ENGINE.architecture, num_key_value_heads=6)),
            4,
            "6 KV heads do not divide by 4",
        ),
        (
            replace(ENGINE, architecture=replace(ENGINE.architecture, intermediate_size=11)),
            2,
            "intermediate size 11 does not divide by 2",
        ),
    ],
)
def test_tensor_parallel_degrees_that_vllm_refuses(engine: Engine, degree: int, problem: str | None) -> None:
    assert tensor_parallel_problem(engine, degree) == problem


@given(engines(), st.sampled_from(["cpu", "cuda"]))
def test_more_gpus_never_need_more_of_each(engine: Engine, accelerator: str) -> None:
    if engine.is_vllm:
        needs = [sum(engine.resident(accelerator, 1024, degree).values()) for degree in (1, 2, 4, 8)]
        assert needs == sorted(needs, reverse=True)
