"""What a step changes in the rendered configuration."""

from __future__ import annotations

from tests.reporting.examples import PROFILE
from tools.client.request import Target
from tools.rendering.plan import rendered_files
from tools.reporting.config_diff import config_diff, config_of

FILES = rendered_files(PROFILE)


def test_a_step_that_changes_one_key_shows_one_line_each() -> None:
    assert config_diff(Target("llm_baseline", 1), Target("llm_baseline", 2), FILES) == (
        "--- llm_baseline/1/model.json\n"
        "+++ llm_baseline/2/model.json\n"
        "@@ -4 +4 @@\n"
        '-  "attention": "eager",\n'
        '+  "attention": "flash_attention_2",\n'
    )


def test_awq_changes_the_weights_and_their_type() -> None:
    lines = config_diff(Target("llm_bf16", 1), Target("llm_awq", 1), FILES).splitlines()
    changed = [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))]
    assert changed == [
        '-name: "llm_bf16"',
        '+name: "llm_awq"',
        '-  "model": "models/smollm2-135m-instruct",',
        '-  "dtype": "bfloat16",',
        '+  "model": "models/smollm2-135m-instruct-awq",',
        '+  "dtype": "float16",',
    ]


def test_comments_and_blank_lines_are_no_configuration() -> None:
    text = config_of(Target("llm_bf16", 1), FILES)["config.pbtxt"]
    assert text.startswith('name: "llm_bf16"\nbackend: "vllm"\nmodel_transaction_policy')
    assert "#" not in text


def test_the_same_configuration_has_no_diff() -> None:
    assert config_diff(Target("llm_awq", 1), Target("llm_awq", 1), FILES) == ""
