"""From words to served models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.client.request import Target
from tools.evaluation.errors import EvaluationError
from tools.evaluation.targets import Served, Targets
from tools.spec.loading import load_profile

BF16, AWQ = "models/llama-2-7b-chat", "models/llama-2-7b-chat-awq"
READY = [
    *(Target("llm_baseline", version) for version in (1, 2, 3)),
    Target("llm_bf16", 1),
    Target("llm_awq", 1),
    Target("llm_eagle", 1),
    Target("chat_bf16", 1),
    Target("other", 4),
]


def targets(tmp_path: Path, ready: list[Target] = READY) -> Targets:
    return Targets(load_profile("h200-llama2-7b"), ready, tmp_path)


@pytest.mark.parametrize(
    ("word", "served"),
    [
        ("llm_bf16", Served(Target("llm_bf16", 1), BF16)),
        ("llm_baseline", Served(Target("llm_baseline", 3), BF16)),
        ("llm_baseline:1", Served(Target("llm_baseline", 1), BF16)),
        ("other", Served(Target("other", 4), None)),
    ],
)
def test_a_model_is_its_newest_version_or_the_one_named(tmp_path: Path, word: str, served: Served) -> None:
    assert targets(tmp_path).named(word) == served


def test_an_artifact_is_the_plainest_vllm_rung_that_serves_it(tmp_path: Path) -> None:
    assert targets(tmp_path).named(str(tmp_path / BF16)) == Served(Target("llm_bf16", 1), BF16)
    assert targets(tmp_path).named(f"{tmp_path}/{AWQ}/") == Served(Target("llm_awq", 1), AWQ)
    only_baseline = targets(tmp_path, [Target("llm_baseline", 2)])
    assert only_baseline.named(str(tmp_path / BF16)) == Served(Target("llm_baseline", 2), BF16)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("llm_bf61", 'model "llm_bf61" is not ready at this server; ready are llm_baseline:1, '),
        ("llm_bf16:2", 'model "llm_bf16:2" is not ready at this server; ready are '),
        ("llm_bf16:x", '"llm_bf16:x": the version "x" is not a positive integer'),
        ("models/nothing", 'no model of the profile "h200-llama2-7b" serves "models/nothing": its artifacts are '),
    ],
)
def test_words_that_name_nothing(tmp_path: Path, word: str, message: str) -> None:
    with pytest.raises(EvaluationError) as refused:
        targets(tmp_path).named(word)
    assert str(refused.value).startswith(message)


def test_an_artifact_whose_rungs_are_not_ready(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError) as refused:
        targets(tmp_path, [Target("llm_bf16", 1)]).named(str(tmp_path / AWQ))
    assert str(refused.value) == (
        f'"{tmp_path / AWQ}" is served by llm_awq:1 and llm_eagle:1. model "llm_awq:1" is not ready at this server; '
        "ready are llm_bf16:1; see `./ladder status`"
    )


def test_every_rung_is_what_the_profile_describes(tmp_path: Path) -> None:
    found = targets(tmp_path).all_rungs()
    assert [str(served) for served in found] == [str(target) for target in READY[:-2]]
    with pytest.raises(EvaluationError, match=r'^no model of the profile "h200-llama2-7b" is ready; see `./ladder sta'):
        targets(tmp_path, READY[-2:]).all_rungs()


def test_the_reference_is_bf16_on_vllm(tmp_path: Path) -> None:
    assert targets(tmp_path).default_reference() == Served(Target("llm_bf16", 1), BF16)
    with pytest.raises(EvaluationError, match=r'^no ready vLLM model serves "models/llama-2-7b-chat", which the oth'):
        targets(tmp_path, [Target("llm_baseline", 1), Target("llm_awq", 1)]).default_reference()
