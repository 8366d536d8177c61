"""Checkpoints written by transformers 5, made readable for 4.x: it does not know the new names, says nothing, and goes
on with wrong defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tools.artifacts.errors import ArtifactError

# The class that 4.x has for any tokenizer.json; 5.x writes others.
TOKENIZER_CLASS: Final = "PreTrainedTokenizerFast"
_ROPE: Final = "rope_parameters"


def older_config(config: dict[str, Any], file: Path) -> dict[str, Any]:
    """`config` with the names of 4.x added. `file` is for the error: ArtifactError for what 4.x has no name for."""
    older = dict(config)
    rope = config.get(_ROPE)
    if rope is not None:
        if not isinstance(rope, dict) or "rope_theta" not in rope:
            raise ArtifactError(f'"{file}": "{_ROPE}" has no "rope_theta": transformers 4 cannot say what it means')
        older["rope_theta"] = rope["rope_theta"]
        scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
        if scaling.get("rope_type", "default") != "default":
            older["rope_scaling"] = scaling
    if "dtype" in config:
        older["torch_dtype"] = config["dtype"]
    return older


def older_tokenizer_config(config: dict[str, Any]) -> dict[str, Any]:
    """`config` with a class that 4.x knows, for a tokenizer whose rules are in its tokenizer.json."""
    return {**config, "tokenizer_class": TOKENIZER_CLASS}
