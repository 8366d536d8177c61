from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.drafting.full_disk import full_disk
from tools.artifacts.catalogue import is_complete
from tools.drafting.architecture import Target
from tools.drafting.commands import check_fits
from tools.drafting.conversations import Dataset
from tools.drafting.errors import DraftError
from tools.drafting.export import UNSEEN_PROMPTS, export_head, read_unseen_prompts
from tools.drafting.manifest import HeadManifest
from tools.drafting.training import Trained, TrainingSettings, train

pytestmark = pytest.mark.slow

SETTINGS = TrainingSettings(epochs=1, draft_vocab_size=64, batch_tokens=2048)


@pytest.fixture
def trained(target: Target, data: Dataset, tmp_path: Path) -> Trained:
    return train(target, data, SETTINGS, tmp_path, lambda _: None, device="cpu")


@pytest.fixture
def head(target: Target, data: Dataset, trained: Trained, tmp_path: Path) -> Path:
    folder = tmp_path / "heads" / "tiny-eagle3"
    export_head(folder, trained, target, target.weights_sha256(), data, SETTINGS)
    return folder


def test_the_folder_is_what_vllm_loads(head: Path, trained: Trained, target: Target) -> None:
    config = json.loads((head / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (config["num_hidden_layers"], config["draft_vocab_size"], config["vocab_size"]) == (1, 64, 340)
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == list(target.aux_layers)
    tensors = load_file(head / "model.safetensors")
    assert tensors["d2t"].dtype == torch.int64
    assert tensors["t2d"].dtype == torch.bool
    assert tensors["fc.weight"].dtype == torch.bfloat16
    assert "embed_tokens.weight" not in tensors
    assert torch.equal(tensors["fc.weight"], trained.head.fc.weight.bfloat16())


def test_the_manifest_says_what_it_was_made_from(head: Path, data: Dataset, target: Target) -> None:
    manifest = HeadManifest.read(head)
    assert manifest is not None
    assert manifest.data.sha256 == data.sha256
    assert (manifest.data.training_conversations, manifest.data.unseen_conversations) == (20, 4)
    assert manifest.source_sha256 == target.weights_sha256()
    assert manifest.acceptance is None
    assert is_complete(head)


def test_unseen_prompts_lie_beside_the_head(head: Path) -> None:
    assert len(read_unseen_prompts(head)) == 4


def test_a_second_export_takes_the_place_of_the_first(
    head: Path, trained: Trained, target: Target, data: Dataset
) -> None:
    (head / "stray").touch()
    export_head(head, trained, target, target.weights_sha256(), data, SETTINGS)
    assert sorted(file.name for file in head.iterdir()) == [
        "config.json", "ladder-manifest.json", "model.safetensors", UNSEEN_PROMPTS,
    ]  # fmt: skip
    assert [folder.name for folder in head.parent.iterdir()] == [head.name]


def test_a_full_disk_keeps_the_head_before(head: Path, trained: Trained, target: Target, data: Dataset) -> None:
    before = (head / "model.safetensors").read_bytes()
    with full_disk(), pytest.raises(DraftError, match=rf'^"{head}" cannot be written \('):
        export_head(head, trained, target, target.weights_sha256(), data, SETTINGS)
    assert (head / "model.safetensors").read_bytes() == before
    assert [folder.name for folder in head.parent.iterdir()] == [head.name]


def test_a_head_fits_its_target(head: Path, target: Target) -> None:
    assert check_fits(head, target).name == head.name


def test_a_head_of_another_target_is_refused(head: Path, target: Target) -> None:
    other = Target(target.folder, {**target.config, "hidden_size": 4096})
    with pytest.raises(DraftError, match=r'"target_hidden_size" is 64, ".*tiny" has 4096; train a head for this one'):
        check_fits(head, other)


def test_a_half_written_head_is_refused(head: Path, target: Target) -> None:
    weights = head / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(DraftError, match=r'".*tiny-eagle3" is damaged: "model.safetensors" is missing or cut short'):
        check_fits(head, target)


def test_no_head_is_refused(tmp_path: Path, target: Target) -> None:
    with pytest.raises(DraftError, match=r"holds no head with a readable manifest: train one with \./ladder draft"):
        check_fits(tmp_path, target)
