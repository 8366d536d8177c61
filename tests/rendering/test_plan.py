"""What a profile renders to: every config parses with the published schema and says what the profile says."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from tools.release.file import parse_release
from tools.rendering.plan import BYTECODE_BLOCK, chat_name, rendered_files
from tools.spec import contract
from tools.spec.loading import load_profile, shipped_profiles
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVariant, VllmVariant

ROOT = Path(__file__).parents[2]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PATHS = st.from_regex(r"models/[A-Za-z0-9 ._\"'{}-]{1,20}", fullmatch=True).filter(lambda path: ".." not in path)
COUNTS = st.integers(1, 2**31 - 1)
ENVIRONMENTS = st.dictionaries(st.from_regex(r"[A-KM-Z_][A-Z0-9_]{0,10}", fullmatch=True), TEXT, max_size=3)
LIMITS = st.fixed_dictionaries(
    {
        "max_waiting_requests": st.integers(0, 10**6),
        "max_prompt_bytes": COUNTS,
        "max_tokens": COUNTS,
        "default_deadline_ms": COUNTS,
    }
)
COMMON = {"environment": ENVIRONMENTS, "limits": st.none() | LIMITS}
VERSION_NUMBERS = st.integers(1, 10**6)


@st.composite
def dynamic_batching(draw: st.DrawFn) -> dict[str, Any]:
    largest = draw(st.integers(1, 64))
    return {
        "max_batch_size": largest,
        "preferred_batch_size": sorted(draw(st.sets(st.integers(1, largest), max_size=3))),
        "max_queue_delay_microseconds": draw(st.integers(0, 10**7)),
        "default_queue_policy": {
            "timeout_action": draw(st.sampled_from(["REJECT", "DELAY"])),
            "default_timeout_microseconds": draw(st.integers(0, 10**9)),
            "allow_timeout_override": draw(st.booleans()),
            "max_queue_size": draw(st.integers(0, 10**6)),
        },
    }


def baselines(path: str) -> st.SearchStrategy[dict[str, Any]]:
    version = st.fixed_dictionaries(
        {
            "model": st.just(path),
            "dtype": st.sampled_from(["bfloat16", "float16", "float32"]),
            "attention": st.sampled_from(["eager", "sdpa", "flash_attention_2"]),
            "batching": st.booleans(),
            "max_model_len": st.integers(1, 4096),
        }
    )
    return st.fixed_dictionaries(
        {
            "kind": st.just("baseline"),
            "dynamic_batching": dynamic_batching(),
            "versions": st.dictionaries(VERSION_NUMBERS, version, min_size=1, max_size=3),
            **COMMON,
        }
    )


def vllms(path: str) -> st.SearchStrategy[dict[str, Any]]:
    arguments = st.fixed_dictionaries(
        {"model": st.just(path), "disable_log_stats": st.just(False)},
        optional={
            "dtype": st.sampled_from(["bfloat16", "float16"]),
            "max_model_len": st.integers(1, 4096),
            "max_num_seqs": COUNTS,
            "served_model_name": TEXT,
            "override_generation_config": st.dictionaries(TEXT, TEXT | st.integers() | st.booleans(), max_size=3),
        },
    )
    versions = st.dictionaries(VERSION_NUMBERS, arguments, min_size=1, max_size=3)
    return st.fixed_dictionaries({"kind": st.just("vllm"), "versions": versions, **COMMON})


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    path = draw(PATHS)
    names = st.from_regex(r"llm_[a-z0-9_]{1,10}", fullmatch=True).filter(lambda name: name != "llm_tokenizer")
    return Profile.model_validate(
        {
            "name": draw(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,10}", fullmatch=True)),
            "target": {"accelerator": "cpu"},
            "model": {
                "display_name": draw(TEXT.filter(bool)),
                "family": "llama",
                "context_length": 4096,
                "hidden_size": 64,
                "vocab_size": 256,
                "chat_template": draw(st.just("tokenizer") | PATHS),
            },
            "artifacts": {"bf16": {"path": path}},
            "limits": draw(LIMITS),
            "environment": draw(ENVIRONMENTS),
            "variants": draw(st.dictionaries(names, baselines(path) | vllms(path), min_size=1, max_size=3)),
        }
    )


def config_in(files: dict[PurePosixPath, str], folder: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(files[PurePosixPath(folder) / "config.pbtxt"], model_config_pb2.ModelConfig())


def parameter(config: model_config_pb2.ModelConfig, key: str) -> str:
    assert key in config.parameters
    return config.parameters[key].string_value


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(profiles())
def test_every_valid_profile_renders_to_what_it_says(profile: Profile) -> None:
    files = rendered_files(profile)
    for path, text in files.items():
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        if path.name == "config.pbtxt":
            config = text_format.Parse(text, model_config_pb2.ModelConfig())
            assert config.name == path.parent.name
        elif path.name == "model.py":
            ast.parse(text)
    for name, variant in profile.enabled_variants.items():
        config = config_in(files, f"model_repository/{name}")
        environment = json.loads(config.parameters["ENGINE_ENVIRONMENT"].string_value or "{}")
        assert environment == {**profile.environment, **variant.environment}
        limits = profile.limits_of(variant)
        assert parameter(config, "MAX_WAITING_REQUESTS") == str(limits.max_waiting_requests)
        assert parameter(config, "MAX_PROMPT_BYTES") == str(limits.max_prompt_bytes)
        assert parameter(config, "MAX_TOKENS_LIMIT") == str(limits.max_tokens)
        assert parameter(config, "DEFAULT_DEADLINE_MS") == str(limits.default_deadline_ms)
        for number, version in variant.versions.items():
            written = json.loads(files[PurePosixPath("model_repository") / name / str(number) / "model.json"])
            expected = version if isinstance(version, dict) else version.model_dump()
            assert written == expected
        assert PurePosixPath("ensembles") / chat_name(name) / "config.pbtxt" in files


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(profiles())
def test_rendering_twice_gives_the_same_bytes(profile: Profile) -> None:
    again = Profile.model_validate(profile.model_dump())
    assert again is not profile
    assert rendered_files(profile) == rendered_files(again)


@pytest.mark.slow
def test_rendering_does_not_depend_on_the_processs_hash_seed() -> None:
    code = (
        "import hashlib; from tools.rendering.plan import rendered_files; from tools.spec.loading import load_profile; "
        "print(hashlib.sha256(repr(rendered_files(load_profile())).encode()).hexdigest())"
    )
    digests = {
        subprocess.check_output(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, cwd=ROOT, text=True
        )
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.fixture(params=shipped_profiles())
def shipped(request: pytest.FixtureRequest) -> Profile:
    return load_profile(request.param)


def test_disabled_variants_are_not_rendered(shipped: Profile) -> None:
    models = {path.parts[1] for path in rendered_files(shipped)}
    enabled = set(shipped.enabled_variants)
    assert models == enabled | {chat_name(name) for name in enabled} | {"chat_tokenizer", "chat"}


def test_each_config_says_who_made_it(shipped: Profile) -> None:
    for path, text in rendered_files(shipped).items():
        if path.name in {"config.pbtxt", "model.py"}:
            first, second, *_ = text.splitlines()
            assert first.startswith(
                f'# Rendered by ./ladder render from the profile "{shipped.name}" and the template '
            )
            assert second.startswith("# Edit those and render again")


def test_vllm_models_batch_nothing_and_stream(shipped: Profile) -> None:
    files = rendered_files(shipped)
    vllms = [name for name, variant in shipped.enabled_variants.items() if isinstance(variant, VllmVariant)]
    assert vllms
    for name in vllms:
        config = config_in(files, f"model_repository/{name}")
        assert config.backend == "vllm"
        assert config.max_batch_size == 0
        assert config.model_transaction_policy.decoupled
        assert config.WhichOneof("scheduling_choice") is None
        assert (
            "No batch dimension and no dynamic_batching: vLLM batches continuously"
            in (files[PurePosixPath("model_repository") / name / "config.pbtxt"])
        )
        (group,) = config.instance_group
        assert (group.kind, group.count) == (model_config_pb2.ModelInstanceGroup.KIND_MODEL, 1)
        assert parameter(config, "REPORT_CUSTOM_METRICS") == "true"
        assert {tensor.name for tensor in config.input if not tensor.optional} == {"text_input"}


def test_vllm_tensors_are_nvidias_plus_input_ids() -> None:
    config = config_in(rendered_files(load_profile()), "model_repository/llm_bf16")
    string, boolean, int32, uint32, fp32 = "TYPE_STRING", "TYPE_BOOL", "TYPE_INT32", "TYPE_UINT32", "TYPE_FP32"
    data_type = model_config_pb2.DataType
    inputs = [(t.name, data_type.Name(t.data_type), list(t.dims), t.optional) for t in config.input]
    assert inputs == [
        ("text_input", string, [1], False),
        ("image", string, [-1], True),
        ("stream", boolean, [1], True),
        ("sampling_parameters", string, [1], True),
        ("exclude_input_in_output", boolean, [1], True),
        ("return_finish_reason", boolean, [1], True),
        ("return_cumulative_logprob", boolean, [1], True),
        ("return_logprobs", boolean, [1], True),
        ("return_num_input_tokens", boolean, [1], True),
        ("return_num_output_tokens", boolean, [1], True),
        ("embedding_request", string, [1], True),
        ("input_ids", int32, [-1], True),
    ]
    outputs = [(t.name, data_type.Name(t.data_type), list(t.dims)) for t in config.output]
    assert outputs == [
        ("text_output", string, [-1]),
        ("finish_reason", string, [-1]),
        ("cumulative_logprob", fp32, [-1]),
        ("logprobs", string, [-1]),
        ("num_input_tokens", uint32, [1]),
        ("num_output_tokens", uint32, [-1]),
        ("prompt_logprobs", string, [1]),
    ]


def test_the_baseline_has_the_profiles_dynamic_batching(shipped: Profile) -> None:
    config = config_in(rendered_files(shipped), "model_repository/llm_baseline")
    variant = shipped.variants["llm_baseline"]
    assert isinstance(variant, BaselineVariant)
    expected = variant.dynamic_batching
    assert config.backend == "python"
    assert parameter(config, "REPORT_CUSTOM_METRICS") == "true"
    assert config.model_transaction_policy.decoupled
    assert config.max_batch_size == expected.max_batch_size == 8
    batching, policy = config.dynamic_batching, expected.default_queue_policy
    assert tuple(batching.preferred_batch_size) == expected.preferred_batch_size
    assert batching.max_queue_delay_microseconds == expected.max_queue_delay_microseconds > 0
    written = batching.default_queue_policy
    assert model_config_pb2.ModelQueuePolicy.TimeoutAction.Name(written.timeout_action) == policy.timeout_action
    assert written.default_timeout_microseconds == policy.default_timeout_microseconds > 0
    assert written.allow_timeout_override
    assert written.max_queue_size == policy.max_queue_size > 0


def test_prompts_of_different_lengths_can_share_a_batch() -> None:
    config = config_in(rendered_files(load_profile()), "model_repository/llm_baseline")
    assert {tensor.name for tensor in config.input if tensor.allow_ragged_batch} == {"input_ids"}
    assert all(list(tensor.dims) == [1] for tensor in config.input if tensor.name != "input_ids")


def test_all_versions_are_served_unless_the_profile_says_which() -> None:
    all_of_them = config_in(rendered_files(load_profile("cpu-smollm2")), "model_repository/llm_baseline")
    assert all_of_them.version_policy.WhichOneof("policy_choice") == "all"
    some = config_in(rendered_files(load_profile("a100-llama2-7b")), "model_repository/llm_baseline")
    assert list(some.version_policy.specific.versions) == [3]


def test_ensembles_wire_matching_tensors(shipped: Profile) -> None:
    files = rendered_files(shipped)
    tokenizer = config_in(files, "ensembles/chat_tokenizer")
    for name in shipped.enabled_variants:
        engine = config_in(files, f"model_repository/{name}")
        chat = config_in(files, f"ensembles/{chat_name(name)}")
        assert (chat.platform, chat.backend, chat.max_batch_size) == ("ensemble", "", 0)
        assert all(tensor.optional for tensor in chat.input)
        known = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in chat.input}
        steps = list(chat.ensemble_scheduling.step)
        assert [(step.model_name, step.model_version) for step in steps] == [("chat_tokenizer", -1), (name, -1)]
        for step, config in zip(steps, (tokenizer, engine), strict=True):
            inputs = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in config.input}
            outputs = {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in config.output}
            required = {tensor.name for tensor in config.input if not tensor.optional}
            assert required <= set(step.input_map)
            for key, value in step.input_map.items():
                assert inputs[key] == known[value]
            for key, value in step.output_map.items():
                assert value not in known or known[value] == outputs[key]
                known[value] = outputs[key]
        assert {tensor.name for tensor in chat.output} == set(steps[1].output_map.values())


def test_a_chat_does_not_repeat_its_templated_prompt() -> None:
    files = rendered_files(load_profile())
    for chat in ("chat_baseline", "chat_bf16"):
        tokenizer_step, engine_step = config_in(files, f"ensembles/{chat}").ensemble_scheduling.step
        passed_on = tokenizer_step.output_map["exclude_input_in_output"]
        assert engine_step.input_map["exclude_input_in_output"] == passed_on
        assert passed_on != "exclude_input_in_output"


def test_an_ensemble_says_that_only_a_deadline_ends_an_abandoned_answer() -> None:
    for name, engine in (("chat_baseline", "llm_baseline"), ("chat_bf16", "llm_bf16")):
        files = rendered_files(load_profile())
        text = files[PurePosixPath("ensembles") / name / "config.pbtxt"]
        assert "Cancellation does not reach a running step" in text
        assert int(parameter(config_in(files, f"model_repository/{engine}"), "DEFAULT_DEADLINE_MS")) > 0


def test_ensembles_have_a_version_folder() -> None:
    files = rendered_files(load_profile())
    for name in ("chat_baseline", "chat_bf16"):
        assert any(path.parent == PurePosixPath("ensembles") / name / "1" for path in files)


def test_the_tokenizer_gets_the_profiles_environment_and_prompt_limit() -> None:
    config = config_in(rendered_files(load_profile()), "ensembles/chat_tokenizer")
    assert json.loads(parameter(config, "ENGINE_ENVIRONMENT")) == {"HF_HUB_OFFLINE": "1"}
    assert parameter(config, "MAX_PROMPT_BYTES") == str(load_profile().limits.max_prompt_bytes)


def test_a_chat_template_of_ones_own_reaches_the_tokenizer() -> None:
    profile = load_profile()
    path = PurePosixPath("ensembles/chat_tokenizer/1/model.json")
    assert "chat_template" not in json.loads(rendered_files(profile)[path])
    own = profile.model_copy(update={"model": profile.model.model_copy(update={"chat_template": "models/own.jinja"})})
    assert json.loads(rendered_files(own)[path])["chat_template"] == "models/own.jinja"


def test_chat_inputs_are_the_tokenizers_and_the_engines_options() -> None:
    names = [tensor.name for tensor in contract.chat_inputs(contract.VLLM_INPUTS)]
    assert names[:3] == ["messages", "text_input", "exclude_input_in_output"]
    assert len(names) == len(set(names))
    assert "image" not in names
    assert "return_logprobs" in names


# The rest runs the rendered model.py as tritonserver's stub does: isolated, with the version's folder on the path.


def run_stub(version: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    code = (
        f"import sys; sys.path.append({str(version)!r}); import model; "
        "print(model.TritonPythonModel.where, model.TritonPythonModel.__module__)"
    )
    inherited = {key: value for key, value in os.environ.items() if key != "LADDER_HOME"}
    return subprocess.run(
        [sys.executable, "-I", "-c", code], env=inherited | environment, capture_output=True, text=True, check=False
    )


def make_project(root: Path) -> Path:
    for name in ("baseline", "tokenizer"):
        module = root / "tools" / "backends" / name / "model.py"
        module.parent.mkdir(parents=True)
        module.write_text(f"class TritonPythonModel:\n    where = {str(root)!r}\n", encoding="utf-8")
    return root


def write_version(root: Path, folder: str) -> Path:
    version = root / folder
    version.mkdir(parents=True)
    for path, text in rendered_files(load_profile()).items():
        if path.parent == PurePosixPath(folder):
            (version / path.name).write_text(text, encoding="utf-8")
    return version


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("model_repository/llm_baseline/2", "tools.backends.baseline.model"),
        ("ensembles/chat_tokenizer/1", "tools.backends.tokenizer.model"),
    ],
)
def test_model_py_finds_the_project_above_itself(tmp_path: Path, folder: str, module: str) -> None:
    version = write_version(make_project(tmp_path), folder)
    finished = run_stub(version, {})
    assert finished.stdout.split() == [str(tmp_path), module], finished.stderr


def test_model_py_prefers_ladder_home(tmp_path: Path) -> None:
    home = make_project(tmp_path / "home")
    version = write_version(make_project(tmp_path / "elsewhere"), "model_repository/llm_baseline/1")
    finished = run_stub(version, {"LADDER_HOME": str(home)})
    assert finished.stdout.split()[0] == str(home), finished.stderr


def test_model_py_says_what_to_set_when_there_is_no_project(tmp_path: Path) -> None:
    version = write_version(tmp_path, "model_repository/llm_baseline/1")
    finished = run_stub(version, {"LADDER_HOME": str(tmp_path)})
    assert f'no folder "tools/backends" in {tmp_path}: set LADDER_HOME to the project\'s folder' in finished.stderr
    assert "any folder above" in run_stub(version, {}).stderr


def test_importing_model_py_leaves_the_version_folder_untouched(tmp_path: Path) -> None:
    version = write_version(make_project(tmp_path), "model_repository/llm_baseline/1")
    before = {path: path.lstat().st_mtime_ns for path in [version, *version.iterdir()]}
    assert run_stub(version, {}).returncode == 0
    assert {path: path.lstat().st_mtime_ns for path in [version, *version.iterdir()]} == before
    (version / BYTECODE_BLOCK).unlink()
    assert run_stub(version, {}).returncode == 0
    assert (version / BYTECODE_BLOCK).is_dir(), "Python no longer writes bytecode here: the block is not needed"


def test_the_router_takes_what_engines_and_ensembles_take(shipped: Profile) -> None:
    files = rendered_files(shipped)
    router = config_in(files, "ensembles/chat")
    inputs = {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in router.input}
    for name, variant in shipped.enabled_variants.items():
        if isinstance(variant, VllmVariant):
            for folder in (f"model_repository/{name}", f"ensembles/{chat_name(name)}"):
                config = config_in(files, folder)
                other = {tensor.name: (tensor.data_type, tuple(tensor.dims)) for tensor in config.input}
                assert other.items() <= inputs.items(), folder
                outputs = {tensor.name for tensor in router.output}
                assert outputs - {tensor.name for tensor in config.output} == {"served_model", "served_version"}
    assert all(tensor.optional for tensor in router.input)
    assert router.model_transaction_policy.decoupled
    assert parameter(router, "RELEASE_FILE") == "release.yaml"


def test_the_release_file_is_the_profiles_start(shipped: Profile) -> None:
    text = rendered_files(shipped)[PurePosixPath("ensembles/chat/release.yaml")]
    assert text.startswith("# Rendered by ./ladder render from the profile ")
    assert parse_release(text, "release.yaml") == shipped.start_release
