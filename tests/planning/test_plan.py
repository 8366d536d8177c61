"""The whole plan: sums, verdicts, and that it only gets better with more memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.planning.examples import BASELINE, ENGINE, engines, profile
from tools.planning.devices import Device, device_of
from tools.planning.engines import Engine, engines_of
from tools.planning.errors import PlanningError
from tools.planning.plan import MemoryPlan, check_context, plan_memory
from tools.planning.units import GIB

AWQ = replace(ENGINE, model="llm_awq", group_size=128, dtype="float16", share=0.2)
lists_of_engines = st.lists(engines(), min_size=1, max_size=4)
devices = st.builds(
    Device,
    name=st.just("a GPU"),
    accelerator=st.sampled_from(["cpu", "cuda"]),
    total=st.integers(8 * GIB, 200 * GIB),
    taken=st.integers(0, 4 * GIB),
)


def gpu(gibibytes: float, taken: float = 0) -> Device:
    return Device("a GPU", "cuda", int(gibibytes * GIB), int(taken * GIB))


def shipped(
    name: str, gpu_name: str | None = None, context: int | None = None, *, everything: bool = False
) -> MemoryPlan:
    found = profile(name)
    device = device_of(gpu_name, found.target)
    wanted = engines_of(found, Path("/nowhere"), device.accelerator, disabled_too=everything)
    return plan_memory(name, wanted, device, context)


def long_baseline(gpu_name: str | None = None, context: int | None = None) -> MemoryPlan:
    """The A100's engines with a baseline that takes the model's whole context, which is more than fits."""
    found = profile("a100-llama2-7b")
    device = device_of(gpu_name, found.target)
    wanted = [
        replace(engine, max_model_len=4096) if engine.model == "llm_baseline" else engine
        for engine in engines_of(found, Path("/nowhere"), device.accelerator)
    ]
    return plan_memory(found.name, wanted, device, context)


def test_the_cache_gets_what_the_share_leaves() -> None:
    [engine] = plan_memory("p", [ENGINE], gpu(40)).engines
    beside_context = engine.total - engine.parts["CUDA context"]
    assert beside_context == 20 * GIB
    assert engine.kv_cache_tokens == engine.parts["KV cache"] // (16 * GIB // 2048) * 16


def test_the_seeds_a100_has_22_gib_of_cache_and_no_trouble_with_32_requests() -> None:
    """A text this project started from says both 18 and 22 GB, and that 32 requests of 456 tokens were swapped out."""
    alone = replace(ENGINE, share=0.9, sequences=256)
    [engine] = plan_memory("p", [alone], device_of("a100-40g", profile("a100-llama2-7b").target), 456).engines
    assert engine.parts["KV cache"] / GIB == pytest.approx(21.6, abs=0.5)
    assert engine.sequences > 32


def test_quantising_gives_its_gain_to_the_cache_and_frees_nothing() -> None:
    [bf16] = plan_memory("p", [replace(ENGINE, share=0.9)], gpu(39.4)).engines
    [awq] = plan_memory("p", [replace(AWQ, share=0.9)], gpu(39.4)).engines
    assert awq.total == bf16.total
    assert awq.parts["KV cache"] - bf16.parts["KV cache"] == bf16.parts["weights"] - awq.parts["weights"]


def test_a_profile_whose_weights_do_not_fit_says_by_how_much_and_what_would() -> None:
    plan = shipped("a100-llama2-7b", "l4")
    assert not plan.fits
    bf16 = plan.engines[-1]
    assert bf16.sequences == 0
    assert plan.problems[0] == (
        "llm_bf16:1 would not start: gpu_memory_utilization 0.5 is 11.0 GiB, weights take 12.6 GiB, the rest 0.7 GiB, "
        f"the cache of one sequence of 4096 tokens takes 2.0 GiB: {bf16.short_by_bytes / GIB:.1f} GiB short"
    )
    assert plan.problems[1].endswith(f"of 22.0 GiB: {-plan.free_bytes / GIB:.1f} GiB short")
    assert "llm_bf16:1 in 4 bits (AWQ) has weights of 3.6 GiB instead of 12.6 GiB" in plan.remedies
    assert "llm_bf16:1 over 2 GPUs has weights of 6.3 GiB on each" in plan.remedies
    assert any(remedy.endswith("GiB of memory would do (--gpu a100-40g)") for remedy in plan.remedies)


def test_the_remedies_hold() -> None:
    """What is said to fit does fit."""
    full = long_baseline()
    assert not full.fits
    assert "requests of at most 2048 tokens fit; --context 2048 shows with which shares" in full.remedies
    assert any(remedy.endswith("GiB of memory would do (--gpu h100)") for remedy in full.remedies)
    assert long_baseline(context=2048).engines[-1].advised_share is not None
    assert long_baseline(context=2176).engines[-1].advised_share is None
    assert long_baseline("h100").engines[-1].advised_share is not None


def test_the_advised_shares_make_a_plan_that_fits() -> None:
    plan = shipped("h200-llama2-7b", everything=True)
    assert not plan.fits
    found = engines_of(profile("h200-llama2-7b"), Path("/nowhere"), "cuda", disabled_too=True)
    advised = [
        replace(engine, share=planned.advised_share) for engine, planned in zip(found, plan.engines, strict=True)
    ]
    assert plan_memory("p", advised, gpu(139)).fits


def test_shipped_profiles_fit_their_target_as_far_as_they_are_enabled() -> None:
    assert shipped("cpu-smollm2").fits
    assert shipped("h200-llama2-7b").fits
    assert shipped("a100-llama2-7b").fits


def test_what_other_programs_hold_is_not_given_away() -> None:
    plan = plan_memory("p", [ENGINE], gpu(40, taken=25))
    assert plan.problems == [
        "together they take 20.4 GiB of 15.0 GiB that other programs leave of 40.0 GiB: 5.4 GiB short"
    ]


def test_a_cache_in_bytes_too_small_for_one_sequence_is_refused() -> None:
    engine = replace(ENGINE, share=None, kv_space=GIB)
    plan = plan_memory("p", [engine], gpu(40))
    assert plan.problems == [
        "llm_bf16:1 would not start: its KV cache has 1.0 GiB, the cache of one sequence of 4096 tokens takes 2.0 GiB: "
        "1.0 GiB short"
    ]
    assert "llm_bf16:1 starts with a KV cache of 2.0 GiB, or with a shorter max_model_len" in plan.remedies


def test_an_impossible_degree_is_a_problem() -> None:
    plan = plan_memory("p", [replace(AWQ, tensor_parallel=4)], gpu(40))
    assert plan.problems == ["llm_awq:1 would not start: 11008 / 4 = 2752 rows are no whole groups of 128"]
    assert plan.remedies == ["llm_awq:1 starts with tensor_parallel_size 1 or 2"]


def test_a_group_size_that_divides_nothing_is_a_problem_at_any_degree() -> None:
    plan = plan_memory("p", [replace(AWQ, group_size=96)], gpu(40))
    assert plan.problems == ["llm_awq:1 would not start: 4096 / 1 = 4096 rows are no whole groups of 96"]
    assert plan.remedies == ["llm_awq:1 starts when quantised with a group size that divides its matrices"]


def test_tensor_parallel_options_leave_more_cache_each() -> None:
    [bf16, awq] = plan_memory("p", [ENGINE, AWQ], gpu(40)).engines
    assert [option.degree for option in bf16.tensor_parallel] == [1, 2, 4, 8]
    assert [option.problem is None for option in awq.tensor_parallel] == [True, True, False, False]
    caches = [option.kv_cache_bytes for option in bf16.tensor_parallel]
    assert caches == sorted(caches)
    assert bf16.tensor_parallel[0].kv_cache_tokens == bf16.kv_cache_tokens
    assert plan_memory("p", [BASELINE], gpu(80)).engines[0].tensor_parallel == []


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (4097, "--context 4097 is over the model's 4096 tokens: ask for 4096 at most"),
        (
            2049,
            '--context 2049 is over "max_model_len" 2048 of "llm_bf16:1": raise it in the profile, or ask for 2048 at '
            "most",
        ),
    ],
)
def test_a_context_that_is_too_long_is_refused(context: int, text: str) -> None:
    with pytest.raises(PlanningError) as caught:
        check_context(context, [replace(ENGINE, max_model_len=2048)], 4096)
    assert str(caught.value) == text


def test_a_context_that_fits_is_not_refused() -> None:
    check_context(4096, [ENGINE], 4096)
    check_context(None, [ENGINE], 16)


@given(lists_of_engines, devices, st.integers(1, 8192))
def test_the_parts_sum_to_the_whole(found: list[Engine], device: Device, context: int) -> None:
    plan = plan_memory("p", found, device, context)
    assert plan.taken_bytes + sum(size for engine in plan.engines for size in engine.parts.values()) == (
        plan.total_bytes - plan.free_bytes
    )
    assert all(size >= 0 for engine in plan.engines for size in engine.parts.values())


@given(lists_of_engines, devices, st.integers(0, 100 * GIB), st.integers(1, 8192))
def test_more_memory_never_gives_fewer_sequences(found: list[Engine], device: Device, more: int, context: int) -> None:
    larger = replace(device, total=device.total + more)
    before, after = (plan_memory("p", found, each, context).engines for each in (device, larger))
    for small, large in zip(before, after, strict=True):
        assert large.sequences >= small.sequences
        assert large.kv_cache_tokens >= small.kv_cache_tokens


@given(lists_of_engines, devices, st.integers(1, 8192))
def test_whatever_does_not_fit_is_explained(found: list[Engine], device: Device, context: int) -> None:
    plan = plan_memory("p", found, device, context)
    assert plan.fits == (plan.free_bytes >= 0 and not any(engine.short_by_bytes for engine in plan.engines))
    assert bool(plan.remedies) == (not plan.fits)
