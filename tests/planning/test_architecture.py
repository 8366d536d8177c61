from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planning.examples import LLAMA_2_7B, SMOLLM2, profile
from tools.planning.architecture import architecture_of
from tools.planning.errors import PlanningError
from tools.spec.model import ServedModel

LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
NAME = "models/llama-2-7b-chat"


def llama(**changes: Any) -> ServedModel:
    return ServedModel.model_validate({**profile("h200-llama2-7b").model.model_dump(), **changes})


def write(folder: Path, **changes: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({**LLAMA_CONFIG, **changes}), encoding="utf-8")
    return folder


def refused(model: ServedModel, folder: Path, group_size: int | None = None) -> str:
    with pytest.raises(PlanningError) as caught:
        architecture_of(model, folder, NAME, group_size)
    return str(caught.value)


@pytest.mark.parametrize("name", ["a100-llama2-7b", "h200-llama2-7b"])
def test_the_profiles_carry_the_published_sizes(name: str, tmp_path: Path) -> None:
    assert architecture_of(profile(name).model, tmp_path, NAME) == LLAMA_2_7B


def test_the_cpu_profile_carries_smollm2s(tmp_path: Path) -> None:
    assert architecture_of(profile("cpu-smollm2").model, tmp_path, "models/smollm2-135m-instruct") == SMOLLM2


def test_the_artifacts_config_is_read_where_the_profile_says_nothing(tmp_path: Path) -> None:
    names = ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
    model = llama(**dict.fromkeys(names))
    assert architecture_of(model, write(tmp_path), NAME) == LLAMA_2_7B


def test_a_config_without_kv_heads_has_as_many_as_heads(tmp_path: Path) -> None:
    assert architecture_of(llama(), write(tmp_path, num_key_value_heads=None), NAME) == LLAMA_2_7B


def test_a_config_of_another_model_is_refused_and_every_difference_named(tmp_path: Path) -> None:
    text = refused(llama(), write(tmp_path, num_hidden_layers=30, vocab_size=32016))
    assert text == (
        '"models/llama-2-7b-chat/config.json" is not of the model that the profile describes: "vocab_size" is 32016 '
        'there and 32000 in the profile; "num_hidden_layers" is 30 there and 32 in the profile: correct the profile, '
        "or put the right checkpoint there"
    )


def test_another_group_size_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, quantization_config={"quant_method": "awq", "group_size": 64})
    assert '"quantization_config.group_size" is 64 there and 128 in the profile' in refused(llama(), folder, 128)
    assert architecture_of(llama(), folder, NAME, 64) == LLAMA_2_7B


def test_a_group_size_that_the_config_does_not_say_is_the_profiles(tmp_path: Path) -> None:
    folder = write(tmp_path, quantization_config={"quant_method": "compressed-tensors", "config_groups": {}})
    assert architecture_of(llama(), folder, NAME, 128) == LLAMA_2_7B


def test_sizes_that_stand_nowhere_are_asked_for(tmp_path: Path) -> None:
    names = ("intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    text = refused(llama(**dict.fromkeys(names)), tmp_path)
    assert text.startswith(
        'the sizes of "Llama-2-7B-Chat" are not known: there is no "models/llama-2-7b-chat/config.json"'
    )
    assert "copy the sizes from its config.json into the profile" in text


def test_a_layout_that_is_not_counted_is_refused(tmp_path: Path) -> None:
    assert '"model_type" "mixtral", whose weights this plan does not count: it knows llama, mistral' in refused(
        llama(), write(tmp_path, model_type="mixtral")
    )
    assert "has biases, which this plan does not count" in refused(llama(), write(tmp_path, attention_bias=True))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "Invalid JSON"),
        (b'{"model_type": "llama"}', "hidden_size: Field required"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_config_that_is_none_is_refused(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    message = refused(llama(), tmp_path)
    assert message.startswith('"models/llama-2-7b-chat/config.json"')
    assert text in message
