"""Folders of models without weights: a shape to measure the speed of, where the weights themselves cannot be had.

Engines make the weights up. The tokenizer is that of the model which comes with the project, because a random model
needs one whose ids it knows and no other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tools.artifacts.errors import ArtifactError
from tools.bootstrap.locking import exclusive
from tools.spec.profile import Profile

TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_CONFIG: Final = "config.json"
# That of the published EAGLE-3 heads for Llama models.
_DRAFT_VOCAB: Final = 32000


def is_made(folder: Path) -> bool:
    """True once `make` has finished."""
    return (folder / _CONFIG).is_file()


def make(profile: Profile, path: str, folder: Path, tokenizer: Path, report: Callable[[str], None]) -> None:
    """Makes the artifact that the profile calls `path` in `folder`, which appears whole or not at all.

    `tokenizer` is the folder of a model. Raises ArtifactError when its vocabulary is larger than the profile's, or the
    model is no Llama.
    """
    config = config_of(profile, path)
    _check_tokenizer(tokenizer, profile.model.vocab_size)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_name(f".{folder.name}.lock"), lambda holder: report(f"process {holder} is making it")):
        if is_made(folder):
            return
        draft = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for name in TOKENIZER_FILES:
            if (tokenizer / name).is_file():
                shutil.copy2(tokenizer / name, draft / name)
        (draft / _CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        draft.rename(folder)


def config_of(profile: Profile, path: str) -> dict[str, Any]:
    """config.json of one of the profile's artifacts. Raises ArtifactError."""
    model, artifacts = profile.model, profile.artifacts
    if model.family != "llama":
        raise ArtifactError(
            f'profile "{profile.name}": "artifacts.dummy_weights" knows models of the family "llama", not '
            f'"{model.family}": place a config.json and a tokenizer at "{path}" yourself'
        )
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 1,
        "dtype": artifacts.bf16.dtype,
        "eos_token_id": 2,
        "head_dim": model.head_dim or model.hidden_size // (model.num_attention_heads or 1),
        "hidden_act": "silu",
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "max_position_embeddings": model.context_length,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": model.num_attention_heads,
        "num_hidden_layers": model.num_hidden_layers,
        "num_key_value_heads": model.num_key_value_heads,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "rope_theta": 10000.0,
        "tie_word_embeddings": model.tie_word_embeddings,
        "torch_dtype": artifacts.bf16.dtype,
        "vocab_size": model.vocab_size,
    }
    if artifacts.awq is not None and path == artifacts.awq.path:
        return config | _awq(artifacts.awq.group_size)
    if artifacts.draft is not None and path == artifacts.draft.path:
        return config | _eagle3(model.hidden_size, model.num_hidden_layers or 0, model.vocab_size)
    return config


def _awq(group_size: int) -> dict[str, Any]:
    return {
        "dtype": "float16",
        "torch_dtype": "float16",
        "quantization_config": {
            "bits": 4,
            "group_size": group_size,
            "modules_to_not_convert": None,
            "quant_method": "awq",
            "version": "gemm",
            "zero_point": True,
        },
    }


def _eagle3(hidden_size: int, layers: int, vocab_size: int) -> dict[str, Any]:
    """A head of one layer that reads an early, a middle and a late hidden state of the target, as EAGLE-3's do."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": min(_DRAFT_VOCAB, vocab_size),
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [2, layers // 2, layers - 3],
            "use_aux_hidden_state": True,
        },
        "num_hidden_layers": 1,
        "target_hidden_size": hidden_size,
        "tie_word_embeddings": False,
    }


def _check_tokenizer(folder: Path, vocab_size: int) -> None:
    config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
    if config["vocab_size"] > vocab_size:
        raise ArtifactError(
            f'the tokenizer of "{folder}" has {config["vocab_size"]} tokens, more than "model.vocab_size" '
            f"{vocab_size}: raise it in the profile"
        )
