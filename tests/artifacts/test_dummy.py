"""Model folders without weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.artifacts import dummy
from tools.artifacts.errors import ArtifactError
from tools.artifacts.provision import provide_for
from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile
from tools.spec.profile import Profile

HOME = Layout.of_this_checkout().home
PROFILE = load_profile(str(HOME / "tools/benchmark/campaigns/h200-llama2-7b-dummy.yaml"))


def tokenizer(folder: Path, vocab_size: int = 49152) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocab_size}), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    return folder


def changed(**model: object) -> Profile:
    return Profile.model_validate({**PROFILE.model_dump(), "model": {**PROFILE.model.model_dump(), **model}})


def test_the_target_has_the_profiles_sizes() -> None:
    config = dummy.config_of(PROFILE, "models/llama-2-7b-dummy")
    assert (config["architectures"], config["num_hidden_layers"]) == (["LlamaForCausalLM"], 32)
    assert (config["hidden_size"], config["intermediate_size"], config["vocab_size"]) == (4096, 11008, 49152)
    assert "quantization_config" not in config


def test_the_quantised_one_says_so_and_computes_in_float16() -> None:
    config = dummy.config_of(PROFILE, "models/llama-2-7b-dummy-awq")
    assert config["quantization_config"]["quant_method"] == "awq"
    assert config["quantization_config"]["group_size"] == 128
    assert config["dtype"] == "float16"


def test_the_head_reads_three_hidden_states_of_its_target() -> None:
    config = dummy.config_of(PROFILE, "models/llama-2-7b-dummy-eagle3")
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [2, 16, 29]
    assert (config["num_hidden_layers"], config["draft_vocab_size"]) == (1, 32000)


def test_a_folder_appears_with_a_tokenizer_and_is_made_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    tokenizer(layout.models / "smollm2-135m-instruct")
    for _ in range(2):
        provide_for(PROFILE, "models/llama-2-7b-dummy", layout, lambda _: None)
    folder = layout.home / "models/llama-2-7b-dummy"
    assert {path.name for path in folder.iterdir()} == {"config.json", "tokenizer.json"}
    assert not (folder.parent / ".llama-2-7b-dummy.partial").exists()


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(tmp_path: Path) -> None:
    source = tokenizer(tmp_path / "source", 50000)
    with pytest.raises(ArtifactError, match=r'has 50000 tokens, more than "model\.vocab_size" 49152: raise it'):
        dummy.make(PROFILE, "models/llama-2-7b-dummy", tmp_path / "made", source, lambda _: None)
    assert not (tmp_path / "made").exists()


def test_another_family_is_refused() -> None:
    with pytest.raises(ArtifactError, match='knows models of the family "llama", not "mamba"'):
        dummy.config_of(changed(family="mamba"), "models/llama-2-7b-dummy")
