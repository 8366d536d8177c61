"""Checks that need more than one key: each refuses one mistake, and names both sides of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tools.lint.vllm_arguments import installed_engine_arguments
from tools.spec.loading import load_profile, shipped_profiles
from tools.spec.profile import Profile
from tools.spec.quality import Quality
from tools.spec.variants import VllmVariant

PROFILES = Path(__file__).parents[2] / "tools" / "spec" / "profiles"


def raw(name: str = "h200-llama2-7b") -> dict[str, Any]:
    data = yaml.safe_load((PROFILES / f"{name}.yaml").read_text(encoding="utf-8"))
    return copy.deepcopy(data)  # YAML anchors share objects, and the tests change them


def refused(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Profile.model_validate(data)
    return "\n".join(error["msg"] for error in caught.value.errors())


def set_argument(variant: str, key: str, value: Any) -> dict[str, Any]:
    data = raw()
    data["variants"][variant]["versions"][1] = {**data["variants"][variant]["versions"][1], key: value}
    return data


def without_argument(variant: str, key: str) -> dict[str, Any]:
    data = raw()
    del data["variants"][variant]["versions"][1][key]
    return data


def test_awq_weights_with_bfloat16_are_refused() -> None:
    assert refused(set_argument("llm_awq", "dtype", "bfloat16")) == (
        '"variants.llm_awq.versions.1": "dtype" is "bfloat16", but AWQ\'s kernels compute in float16: set "float16"'
    )


def test_a_gate_that_bounds_nothing_is_refused() -> None:
    data = raw()
    data["artifacts"]["awq"]["gate"] = {}
    assert '"gate" bounds nothing: give "max_share_of_rounding", "max_perplexity_increase" or both' in refused(data)


def test_awq_asked_for_by_name_with_bfloat16_is_refused() -> None:
    assert "compute in float16" in refused(set_argument("llm_bf16", "quantization", "awq_marlin"))


def test_forcing_awq_is_refused_because_marlin_is_faster() -> None:
    assert '"quantization" is "awq": remove it' in refused(set_argument("llm_awq", "quantization", "awq"))


@pytest.mark.parametrize(
    "key", ["speculative_model", "num_speculative_tokens", "speculative_draft_tensor_parallel_size"]
)
def test_flags_that_vllm_removed_are_refused(key: str) -> None:
    assert f'"{key}" was removed from vLLM' in refused(set_argument("llm_eagle", key, 1))


def test_a_draft_head_that_is_no_artifact_is_refused() -> None:
    config = {"method": "eagle3", "model": "models/other", "num_speculative_tokens": 5}
    assert '"speculative_config.model" \'models/other\' is not "artifacts.draft.path"' in refused(
        set_argument("llm_eagle", "speculative_config", config)
    )


def test_a_draft_head_used_by_another_method_is_refused() -> None:
    config = {"method": "eagle", "model": "models/llama-2-7b-chat-eagle3", "num_speculative_tokens": 5}
    assert '"speculative_config.method" is \'eagle\', but "artifacts.draft.method" is "eagle3"' in refused(
        set_argument("llm_eagle", "speculative_config", config)
    )


def test_a_speculative_config_that_is_no_mapping_is_refused() -> None:
    assert "\"speculative_config\" is 'eagle3': write a mapping" in refused(
        set_argument("llm_eagle", "speculative_config", "eagle3")
    )


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("hidden_size", 2048, '"artifacts.draft.hidden_size" 2048 is not "model.hidden_size" 4096'),
        ("vocab_size", 65024, '"artifacts.draft.vocab_size" 65024 is over "model.vocab_size" 32000'),
    ],
)
def test_a_draft_head_that_cannot_fit_the_target_is_refused(key: str, value: int, text: str) -> None:
    data = raw()
    data["artifacts"]["draft"][key] = value
    assert text in refused(data)


def test_a_group_size_that_does_not_divide_is_refused() -> None:
    data = raw()
    data["artifacts"]["awq"]["group_size"] = 96
    assert '"artifacts.awq.group_size" 96 does not divide "model.hidden_size" 4096' in refused(data)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"num_hidden_layers": None, "intermediate_size": None},
            "'intermediate_size', 'num_hidden_layers' missing: give all of intermediate_size, num_hidden_layers, "
            "num_attention_heads, num_key_value_heads as in the checkpoint's config.json, or none",
        ),
        ({"num_key_value_heads": 5}, '"num_key_value_heads" 5 does not divide "num_attention_heads" 32'),
        (
            {"num_attention_heads": 30, "num_key_value_heads": 30, "head_dim": None},
            '"num_attention_heads" 30 does not divide "hidden_size" 4096: give "head_dim"',
        ),
    ],
)
def test_sizes_that_cannot_be_a_model_are_refused(changes: dict[str, Any], text: str) -> None:
    data = raw()
    data["model"].update(changes)
    assert refused(data) == text


def test_a_profile_may_leave_the_sizes_of_its_layers_out() -> None:
    data = raw()
    for key in ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"):
        del data["model"][key]
    assert Profile.model_validate(data).model.num_hidden_layers is None


def test_weights_that_are_no_artifact_are_refused() -> None:
    text = refused(set_argument("llm_bf16", "model", "models/elsewhere"))
    assert "\"model\" 'models/elsewhere' is none of the artifacts' paths (models/llama-2-7b-chat, models/" in text


@pytest.mark.parametrize("variant", ["llm_baseline", "llm_bf16"])
def test_a_context_longer_than_the_models_is_refused(variant: str) -> None:
    text = refused(set_argument(variant, "max_model_len", 8192))
    assert text == f'"variants.{variant}.versions.1": "max_model_len" 8192 is over "model.context_length" 4096'


@pytest.mark.parametrize("key", ["max_model_len", "max_num_seqs", "tensor_parallel_size", "pipeline_parallel_size"])
@pytest.mark.parametrize("value", [0, -1, "8", True])
def test_counts_that_are_no_positive_numbers_are_refused(key: str, value: Any) -> None:
    assert f'"{key}" is {value!r}: write a whole number, 1 or more' in refused(set_argument("llm_bf16", key, value))


def test_more_gpus_than_the_target_has_are_refused() -> None:
    assert "needs 4 GPUs (tensor times pipeline parallel), the target has 1" in refused(
        set_argument("llm_bf16", "tensor_parallel_size", 4)
    )


@pytest.mark.parametrize("value", [0, 1.5, "0.9", True])
def test_a_memory_share_outside_its_range_is_refused(value: Any) -> None:
    assert f'"gpu_memory_utilization" is {value!r}: write a share over 0 and up to 1' in refused(
        set_argument("llm_bf16", "gpu_memory_utilization", value)
    )


def test_statistics_switched_off_are_refused() -> None:
    expected = 'set "disable_log_stats" to false: the metrics are fed from vLLM\'s statistics'
    assert expected in refused(set_argument("llm_bf16", "disable_log_stats", True))
    assert expected in refused(without_argument("llm_bf16", "disable_log_stats"))


def test_a_baseline_on_other_weights_is_refused() -> None:
    assert '"model" \'models/llama-2-7b-chat-awq\' is not "artifacts.bf16.path"' in refused(
        set_argument("llm_baseline", "model", "models/llama-2-7b-chat-awq")
    )


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([4, 16], '"preferred_batch_size" 16 is over "max_batch_size" 8'),
        ([8, 4], '"preferred_batch_size" [8, 4] must ascend without repeats'),
        ([4, 4], '"preferred_batch_size" [4, 4] must ascend without repeats'),
    ],
)
def test_preferred_sizes_that_triton_refuses_are_refused(sizes: list[int], text: str) -> None:
    data = raw()
    data["variants"]["llm_baseline"]["dynamic_batching"]["preferred_batch_size"] = sizes
    assert text in refused(data)


@pytest.mark.parametrize("version", [0, -1])
def test_versions_are_positive(version: int) -> None:
    data = raw()
    data["variants"]["llm_bf16"]["versions"] = {version: data["variants"]["llm_bf16"]["versions"][1]}
    assert "greater than 0" in refused(data)


def test_a_version_to_load_must_exist() -> None:
    data = raw()
    data["variants"]["llm_baseline"]["load_versions"] = [3, 4]
    assert refused(data) == '"variants.llm_baseline.load_versions" names version 4, which "versions" does not describe'


def test_speculation_states_its_golden_interval() -> None:
    data = raw()
    del data["variants"]["llm_eagle"]["golden_interval"]
    assert '"variants.llm_eagle.versions.1" speculates: state its "golden_interval"' in refused(data)


def test_no_more_run_than_the_golden_interval_is_good_for() -> None:
    assert '"max_num_seqs" is 17, over "golden_interval.best_up_to" 16' in refused(
        set_argument("llm_eagle", "max_num_seqs", 17)
    )


def test_no_more_wait_than_the_golden_interval_bears() -> None:
    data = raw()
    data["variants"]["llm_eagle"]["limits"]["max_waiting_requests"] = 17
    assert '16 running and 17 waiting requests are over "golden_interval.break_even_at" 32' in refused(data)


def test_golden_interval_ascends() -> None:
    data = raw()
    data["variants"]["llm_eagle"]["golden_interval"]["break_even_at"] = 64
    assert '"best_up_to" (16), "break_even_at" (64) and "worse_from" (64) must ascend' in refused(data)


def test_a_variants_environment_goes_over_the_profiles() -> None:
    data = raw()
    data["environment"] = {"A": "profile", "B": "profile"}
    data["variants"]["llm_bf16"]["environment"] = {"B": "variant"}
    profile = Profile.model_validate(data)
    assert profile.environment_of(profile.variants["llm_bf16"]) == {"A": "profile", "B": "variant"}
    assert profile.environment_of(profile.variants["llm_baseline"]) == {"A": "profile", "B": "profile"}


def test_environment_values_are_text() -> None:
    data = raw()
    data["variants"]["llm_bf16"]["environment"] = {"VLLM_CPU_KVCACHE_SPACE": 1}
    assert refused(data) == 'environment variable "VLLM_CPU_KVCACHE_SPACE" is 1: put quotes round it, values are text'


def test_environment_names_of_the_ladder_are_refused() -> None:
    data = raw()
    data["variants"]["llm_bf16"]["environment"] = {"LADDER_HOME": "elsewhere"}
    assert 'environment variable "LADDER_HOME": names that start with "LADDER_" are set by ./ladder' in refused(data)


@pytest.mark.parametrize("path", ["/data/model", "~/model", "../model", "models/../../model", "models\\model"])
def test_paths_that_leave_the_project_are_refused(path: str) -> None:
    data = raw()
    data["artifacts"]["bf16"]["path"] = path
    assert f'path "{path}" must lie inside the project' in refused(data)


def test_a_profile_that_serves_nothing_is_refused() -> None:
    data = raw()
    for variant in data["variants"].values():
        variant["enabled"] = False
    assert 'every variant has "enabled: false": nothing would be served, enable one' in refused(data)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"accelerator": "cpu", "gpus": 1}, 'remove "gpus" and "gpu_memory_gib", or set it to "cuda"'),
        ({"accelerator": "cuda", "gpus": 1}, 'say how many "gpus" there are and the "gpu_memory_gib" of one'),
    ],
)
def test_a_target_whose_gpus_contradict_it_is_refused(target: dict[str, Any], text: str) -> None:
    assert text in refused({**raw(), "target": target})


def test_variant_names_become_model_names() -> None:
    data = raw()
    data["variants"]["bf16"] = data["variants"].pop("llm_bf16")
    assert "llm_" in refused(data)


def test_the_tokenizer_accepts_what_the_longest_enabled_version_accepts() -> None:
    data = raw("cpu-smollm2")
    data["variants"]["llm_bf16"]["versions"][1]["max_model_len"] = 4096
    assert Profile.model_validate(data).tokenizer_max_model_len == 4096
    data["variants"]["llm_bf16"]["enabled"] = False
    assert Profile.model_validate(data).tokenizer_max_model_len == 2048


def test_an_engine_without_max_model_len_takes_the_models_whole_context() -> None:
    data = raw("cpu-smollm2")
    del data["variants"]["llm_bf16"]["versions"][1]["max_model_len"]
    assert Profile.model_validate(data).tokenizer_max_model_len == 8192


def test_a_variants_own_limits_replace_the_profiles() -> None:
    data = raw()
    own = {"max_waiting_requests": 1, "max_prompt_bytes": 2, "max_tokens": 3, "default_deadline_ms": 4}
    data["variants"]["llm_bf16"]["limits"] = own
    profile = Profile.model_validate(data)
    assert profile.limits_of(profile.variants["llm_bf16"]).model_dump() == own
    assert profile.limits_of(profile.variants["llm_baseline"]) == profile.limits


@pytest.mark.parametrize("name", shipped_profiles())
def test_every_shipped_engine_argument_is_one_of_vllms(name: str) -> None:
    known = installed_engine_arguments()
    assert known is not None, "vLLM is not installed beside the tests"
    for variant in load_profile(name).variants.values():
        if isinstance(variant, VllmVariant):
            for arguments in variant.versions.values():
                assert set(arguments) <= set(known.engine)
                speculative = arguments.get("speculative_config", {})
                assert isinstance(speculative, dict)
                assert set(speculative) <= set(known.speculative)


@pytest.mark.parametrize("name", shipped_profiles())
def test_the_sla_defaults_are_the_promise(name: str) -> None:
    sla = load_profile(name).sla
    assert (sla.ttft_ms, sla.tpot_ms, sla.p99_e2e_s, sla.min_qps_per_gpu) == (500, 50, 4, 20)


@pytest.mark.parametrize("name", ["a100-llama2-7b", "h200-llama2-7b"])
def test_the_large_profiles_hold_rungs_to_the_bar_against_bf16(name: str) -> None:
    assert load_profile(name).quality == Quality(perplexity_increase_percent=3.0, mmlu_loss_points=1.0)


@pytest.mark.parametrize(
    ("key", "value"), [("perplexity_max", 0.0), ("mmlu_loss_points", -1.0), ("format_min_percent", 101.0)]
)
def test_a_limit_that_cannot_be_one_is_refused(key: str, value: float) -> None:
    data = raw()
    data["quality"] = {key: value}
    assert "greater than" in refused(data) or "less than or equal to 100" in refused(data)


# The release


def with_release(*routes: dict[str, Any]) -> dict[str, Any]:
    return raw("cpu-smollm2") | {"release": {"routes": list(routes)}}


def to(model: str, version: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": "default", "targets": [{"model": model, "version": version, "weight": 100.0}], **more}


def test_without_a_release_everything_goes_to_the_newest_version_of_the_first_vllm_variant() -> None:
    data = raw()
    arguments = data["variants"]["llm_bf16"]["versions"][1]
    data["variants"]["llm_bf16"]["versions"] = {1: arguments, 2: arguments, 3: arguments}
    assert list(Profile.model_validate(data).start_release.targets()) == ["llm_bf16:3"]
    data["variants"]["llm_bf16"]["load_versions"] = [1, 2]
    assert list(Profile.model_validate(data).start_release.targets()) == ["llm_bf16:2"]


def test_where_vllm_serves_nothing_the_first_variant_is_the_start() -> None:
    data = raw()
    for name, variant in data["variants"].items():
        variant["enabled"] = name == "llm_baseline"
    profile = Profile.model_validate(data)
    newest = max(profile.variants["llm_baseline"].loaded_versions)
    assert list(profile.start_release.targets()) == [f"llm_baseline:{newest}"]


def test_a_release_of_the_profiles_own_is_the_start() -> None:
    release = Profile.model_validate(with_release(to("llm_awq", sticky="session"))).start_release
    assert release.route("default").sticky == "session"
    assert list(release.targets()) == ["llm_awq:1"]


def test_a_release_names_what_is_loaded() -> None:
    assert '"release" names "llm_new:1", but no variant "llm_new" is enabled: enable it' in refused(
        with_release(to("llm_new"))
    )
    assert '"release" names "llm_awq:4", but of "llm_awq" only version 1 is loaded' in refused(
        with_release(to("llm_awq", 4))
    )
    shadowed = to("llm_awq", shadow={"model": "llm_bf16", "version": 9, "share": 1.0})
    assert '"release" names "llm_bf16:9"' in refused(with_release(shadowed))
