"""The load of a report: what fits a profile, and what each cell sends."""

from __future__ import annotations

from itertools import product

from tests.reporting.examples import PROFILE, SETTINGS
from tools.reporting.settings import Settings
from tools.spec.loading import load_profile


def test_a_profile_without_gpu_is_asked_for_little() -> None:
    settings = Settings.of_profile(PROFILE)
    assert (settings.levels, settings.output_tokens) == ((1, 8, 32), 16)


def test_a_profile_with_a_gpu_gets_the_seeds_answers_and_its_levels() -> None:
    settings = Settings.of_profile(load_profile("h200-llama2-7b"))
    assert settings.levels == (1, 16, 32, 64, 128, 256)
    assert (settings.input_tokens, settings.output_tokens) == (50, 256)


def test_a_load_generator_has_eight_streams_as_far_as_half_the_cores_go() -> None:
    settings = Settings.of_profile(load_profile("h200-llama2-7b"))
    assert [settings.workers_for(level, 16) for level in settings.levels] == [0, 2, 4, 8, 8, 8]
    assert [settings.workers_for(level, 4) for level in settings.levels] == [0, 2, 2, 2, 2, 2]
    assert [settings.workers_for(level, 2) for level in settings.levels] == [0] * 6


def test_an_engine_on_the_cpu_keeps_the_cores_unless_told_otherwise() -> None:
    settings = Settings.of_profile(PROFILE)
    assert settings.workers_for(32, 64) == 0
    assert settings.model_copy(update={"workers": 4}).workers_for(32, 2) == 4
    # A generator without a stream would have nothing to do.
    assert settings.model_copy(update={"workers": 4}).workers_for(1, 2) == 1


def test_few_streams_send_enough_for_a_median_and_many_send_one_each() -> None:
    assert [SETTINGS.requests(level) for level in (1, 8, 32)] == [8, 8, 32]


def test_no_two_cells_of_a_rung_have_the_same_prompts() -> None:
    seeds = {
        SETTINGS.model_copy(update={"seed": seed}).cell_seed(level, repeat)
        for seed, level, repeat in product(range(3), (1, 8, 32, 256), range(1, 11))
    }
    assert len(seeds) == 3 * 4 * 10


def test_a_cell_differs_between_rungs_in_its_target_only() -> None:
    one = SETTINGS.load("http://127.0.0.1:8000", "llm_bf16:1", 8, 2)
    other = SETTINGS.load("http://127.0.0.1:8000", "llm_awq:1", 8, 2)
    assert one.model_copy(update={"targets": other.targets}) == other
    assert (one.users, one.requests, one.input_tokens, one.output_tokens) == (8, 8, 50, 16)
    assert one.sampling == {"temperature": 0.0}


def test_the_workload_is_said_in_a_sentence() -> None:
    assert SETTINGS.text() == (
        "Every request: a prompt of 50 tokens, 16 tokens of answer, greedy, over generate_stream. Closed loop; "
        "requests by streams: 8 at 1, 8 at 8, 32 at 32."
    )
    limited = SETTINGS.model_copy(update={"cell_s": 30})
    assert limited.text().endswith("32 at 32, or as many as are answered in 30 s.")
    assert limited.load("http://127.0.0.1:8000", "llm_bf16:1", 8, 2).duration_s == 30
