"""A trained head as the folder that vLLM loads: config.json, model.safetensors, manifest.

Prompts that it was not trained on lie beside it, so that its acceptance can be measured again wherever it goes.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from pathlib import Path
from typing import Final

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import AutoTokenizer

from tools.artifacts.manifest import sizes_of
from tools.drafting.architecture import Target
from tools.drafting.conversations import Dataset
from tools.drafting.errors import DraftError
from tools.drafting.manifest import DataFigures, HeadManifest, TrainingFigures
from tools.drafting.training import Trained, TrainingSettings
from tools.drafting.whole_file import cannot_write

WEIGHTS: Final = "model.safetensors"
UNSEEN_PROMPTS: Final = "unseen-prompts.json"
_MOST_PROMPTS: Final = 400
_PACKAGES: Final = ("torch", "transformers", "safetensors", "numpy")


def export_head(
    folder: Path, trained: Trained, target: Target, target_sha256: str, data: Dataset, settings: TrainingSettings
) -> HeadManifest:
    """The folder is there whole, in the place of the one before, or not at all. Raises DraftError."""
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        tensors = {
            name: (tensor.bfloat16() if tensor.is_floating_point() else tensor).cpu().contiguous()
            for name, tensor in trained.head.state_dict().items()
        }
        save_file(tensors, str(partial / WEIGHTS), metadata={"format": "pt"})
        config = json.dumps(trained.config, indent=2, sort_keys=True) + "\n"
        (partial / "config.json").write_text(config, encoding="utf-8")
        (partial / WEIGHTS).chmod((partial / "config.json").stat().st_mode)
        _write_unseen_prompts(partial / UNSEEN_PROMPTS, target, data)
        manifest = HeadManifest(
            name=folder.name,
            source=target.folder.name,
            source_sha256=target_sha256,
            versions={package: _version(package) for package in _PACKAGES},
            tensors=len(tensors),
            dtype="BF16",
            files=sizes_of(partial),
            aux_layers=list(target.aux_layers),
            draft_vocab_size=settings.draft_vocab_size,
            data=_data_figures(data, trained),
            training=_training_figures(trained, settings),
        )
        manifest.write(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except (OSError, SafetensorError) as error:
        raise cannot_write(folder, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def read_unseen_prompts(head: Path) -> list[str]:
    """Rendered prompts, as the engine tokenizes them. Raises DraftError."""
    file = head / UNSEEN_PROMPTS
    try:
        prompts: list[str] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DraftError(f'"{file}" cannot be read ({error}): restore it, or train the head again') from error
    return prompts


def _write_unseen_prompts(file: Path, target: Target, data: Dataset) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(target.folder))
    prompts = dict.fromkeys(tokenizer.decode(conversation.prompt.tolist()) for conversation in data.unseen)
    text = json.dumps(list(prompts)[:_MOST_PROMPTS], indent=1, ensure_ascii=False) + "\n"
    file.write_text(text, encoding="utf-8")


def _version(package: str) -> str:
    return torch.__version__ if package == "torch" else importlib.metadata.version(package)


def _data_figures(data: Dataset, trained: Trained) -> DataFigures:
    training = data.training
    return DataFigures(
        sha256=data.sha256,
        prompts=data.origin,
        training_conversations=len(training),
        training_tokens=sum(len(conversation.answer) for conversation in training),
        unseen_conversations=len(data.unseen),
        draft_vocabulary_coverage=round(trained.coverage, 4),
    )


def _training_figures(trained: Trained, settings: TrainingSettings) -> TrainingFigures:
    last = trained.progress.points[-1]
    return TrainingFigures(
        settings=settings,
        steps=trained.progress.step,
        seconds=round(trained.progress.seconds, 1),
        device=trained.device,
        loss=round(last.loss, 4),
        unseen_loss=round(last.unseen_loss, 4),
    )
