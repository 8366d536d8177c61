"""The sizes of a target and of the head made for it, and the config.json by which vLLM knows the head."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.artifacts.manifest import sha256_of
from tools.drafting.errors import DraftError

ARCHITECTURE: Final = "LlamaForCausalLMEagle3"
_LLAMA_LIKE: Final = ("llama", "mistral")


@dataclass(frozen=True)
class Target:
    """The model that the head drafts for. `config` is its config.json; `layers` its decoder layers."""

    folder: Path
    config: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Target:
        """Raises DraftError when there is no model, or one whose layers the head cannot follow."""
        file = folder / "config.json"
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DraftError(f'"{file}" cannot be read ({error}): make the target first, with ./ladder up') from error
        if config.get("model_type") not in _LLAMA_LIKE:
            raise DraftError(
                f'"{file}" is a model of type "{config.get("model_type")}": vLLM\'s EAGLE-3 head has Llama\'s layer, '
                f"so the target must be one of {', '.join(_LLAMA_LIKE)}"
            )
        return cls(folder, config)

    @property
    def layers(self) -> int:
        return int(self.config["num_hidden_layers"])

    @property
    def hidden_size(self) -> int:
        return int(self.config["hidden_size"])

    @property
    def vocab_size(self) -> int:
        return int(self.config["vocab_size"])

    def weights_sha256(self) -> str:
        """Of all weight files, in order of their names. Raises DraftError when there are none."""
        files = sorted(self.folder.glob("*.safetensors"))
        if not files:
            raise DraftError(f'"{self.folder}" holds no *.safetensors: make the target first, with ./ladder up')
        if len(files) == 1:
            return sha256_of(files[0])
        return hashlib.sha256("".join(map(sha256_of, files)).encode()).hexdigest()

    @property
    def aux_layers(self) -> tuple[int, int, int]:
        """vLLM's default, `get_eagle3_default_aux_hidden_state_layers`: k means what goes into decoder layer k."""
        layers = self.layers
        return (2, layers // 2, layers - 3)


def head_config(target: Target, draft_vocab_size: int) -> dict[str, Any]:
    """The head's config.json: one decoder layer of the target's own shape."""
    inherited = (
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_act",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "vocab_size",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
    )
    return {
        **{key: target.config[key] for key in inherited if key in target.config},
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": draft_vocab_size,
        "target_hidden_size": target.hidden_size,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(target.aux_layers), "use_aux_hidden_state": True},
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
