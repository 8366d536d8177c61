from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts.errors import ArtifactError
from tools.artifacts.older_transformers import older_config, older_tokenizer_config

FILE = Path("m/config.json")


def test_the_base_of_the_rotary_embedding_gets_its_old_name() -> None:
    config = {"rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"}, "dtype": "bfloat16"}
    assert older_config(config, FILE) == {**config, "rope_theta": 100000.0, "torch_dtype": "bfloat16"}


def test_a_scaled_rotary_embedding_keeps_its_scaling() -> None:
    rope = {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0}
    assert older_config({"rope_parameters": rope}, FILE)["rope_scaling"] == {"rope_type": "llama3", "factor": 8.0}


def test_a_config_of_the_older_kind_stays_as_it_is() -> None:
    config = {"rope_theta": 10000.0, "torch_dtype": "float16"}
    assert older_config(config, FILE) == config


@pytest.mark.parametrize("rope", [{}, {"full_attention": {"rope_theta": 1.0}}, "x"])
def test_what_has_no_old_name_is_refused(rope: object) -> None:
    with pytest.raises(ArtifactError, match=r'"m/config.json": "rope_parameters" has no "rope_theta"'):
        older_config({"rope_parameters": rope}, FILE)


def test_the_tokenizer_gets_a_class_that_is_known_there() -> None:
    assert older_tokenizer_config({"tokenizer_class": "TokenizersBackend", "eos_token": "x"}) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "x",
    }
