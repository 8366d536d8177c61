from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tools.benchmark.errors import BenchmarkError
from tools.benchmark.repository import newest_arguments, vllm_model, write_mock_model, write_model, write_router
from tools.engine.adapters.mock import MockAdapter
from tools.release.file import read_release
from tools.rendering.plan import MODEL_REPOSITORY, rendered_files
from tools.spec.loading import load_profile


def parsed(text: str) -> model_config_pb2.ModelConfig:
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_the_config_is_the_profiles_own_but_for_the_engine(tmp_path: Path) -> None:
    profile = load_profile()
    write_mock_model(tmp_path, profile, "llm_bf16", {"step_s": 0.005, "max_num_seqs": 64})
    config = parsed((tmp_path / "llm_bf16" / "config.pbtxt").read_text(encoding="utf-8"))
    assert config.parameters["ENGINE_ADAPTER"].string_value == "mock"
    del config.parameters["ENGINE_ADAPTER"]
    rendered = next(text for path, text in rendered_files(profile).items() if "llm_bf16/config" in str(path))
    assert config == parsed(rendered)
    arguments = json.loads((tmp_path / "llm_bf16" / "1" / "model.json").read_text(encoding="utf-8"))
    assert arguments == {"step_s": 0.005, "max_num_seqs": 64}
    MockAdapter(arguments)  # raises LaunchError for arguments that the mock does not know


def test_the_first_vllm_variant_is_taken_or_the_one_named() -> None:
    profile = load_profile()
    assert vllm_model(profile) == "llm_bf16"
    assert vllm_model(profile, "llm_bf16") == "llm_bf16"


def test_a_variant_that_vllm_does_not_serve_is_refused() -> None:
    with pytest.raises(BenchmarkError, match='enables no variant "llm_baseline" of kind "vllm": there is llm_bf16'):
        vllm_model(load_profile(), "llm_baseline")
    profile = load_profile()
    without = profile.model_copy(update={"variants": {"llm_baseline": profile.variants["llm_baseline"]}})
    with pytest.raises(BenchmarkError, match='profile "cpu-smollm2" enables no variant of kind "vllm"'):
        vllm_model(without)


def test_a_real_model_is_written_as_rendered(tmp_path: Path) -> None:
    profile = load_profile()
    write_model(tmp_path, profile, "llm_bf16")
    rendered = rendered_files(profile)
    for path in ("llm_bf16/config.pbtxt", "llm_bf16/1/model.json"):
        assert (tmp_path / path).read_text(encoding="utf-8") == rendered[MODEL_REPOSITORY / path]
    assert len([file for file in tmp_path.rglob("*") if file.is_file()]) == 2


def test_the_newest_version_that_is_loaded_is_the_one_measured() -> None:
    profile = load_profile()
    variant = profile.variants["llm_bf16"]
    versions = {1: {"model": "a"}, 2: {"model": "b"}, 3: {"model": "c"}}
    three = variant.model_copy(update={"versions": versions})
    several = profile.model_copy(update={"variants": {"llm_bf16": three}})
    assert newest_arguments(several, "llm_bf16") == (3, {"model": "c"})
    limited = three.model_copy(update={"load_versions": (1, 2)})
    several = profile.model_copy(update={"variants": {"llm_bf16": limited}})
    assert newest_arguments(several, "llm_bf16") == (2, {"model": "b"})


def test_the_router_sends_everything_to_the_model(tmp_path: Path) -> None:
    write_router(tmp_path, load_profile(), "llm_awq")
    assert list(read_release(tmp_path / "chat" / "release.yaml").targets()) == ["llm_awq:1"]
    assert parsed((tmp_path / "chat" / "config.pbtxt").read_text(encoding="utf-8")).name == "chat"
    assert sorted(file.name for file in (tmp_path / "chat" / "1").iterdir()) == [
        "__pycache__",
        "model.json",
        "model.py",
    ]
