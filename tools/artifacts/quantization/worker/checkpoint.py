"""The folders on both sides of a quantiser: the source as transformers 4 reads it, the result as engines want it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from tools.artifacts.manifest import MANIFEST
from tools.artifacts.older_transformers import older_config, older_tokenizer_config

_CONFIG: Final = "config.json"
_TOKENIZER: Final = "tokenizer_config.json"
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".gguf", ".index.json")


def write_view(source: Path, view: Path) -> None:
    """Fills `view` with links to the source's files, and with copies of its two configs in the names of 4.x."""
    shutil.rmtree(view, ignore_errors=True)
    view.mkdir()
    for file in source.iterdir():
        if file.name not in (_CONFIG, _TOKENIZER, MANIFEST) and file.is_file():
            (view / file.name).symlink_to(file.resolve())
    _write_json(view / _CONFIG, older_config(_read_json(source / _CONFIG), source / _CONFIG))
    if (source / "tokenizer.json").is_file():
        _write_json(view / _TOKENIZER, older_tokenizer_config(_read_json(source / _TOKENIZER)))
    elif (source / _TOKENIZER).is_file():
        (view / _TOKENIZER).symlink_to((source / _TOKENIZER).resolve())


def finish_result(source: Path, result: Path) -> None:
    """Replaces what the quantiser's transformers wrote beside the weights by the source's own files.

    An old transformers writes a config without what it does not know, and AutoAWQ turns on sampling in the generation
    config. From the quantiser's config comes `quantization_config` alone.
    """
    quantization = _read_json(result / _CONFIG)["quantization_config"]
    for file in source.iterdir():
        if file.is_file() and file.name != MANIFEST and not file.name.endswith(_WEIGHTS):
            shutil.copyfile(file, result / file.name)
    config = _read_json(source / _CONFIG)
    # What is not packed is stored in float16, and AWQ's kernels compute in it.
    config |= {"dtype": "float16", "torch_dtype": "float16", "quantization_config": quantization}
    _write_json(result / _CONFIG, config)
    for weights in result.glob("*.safetensors"):
        # safetensors makes its files for the owner alone.
        weights.chmod((result / _CONFIG).stat().st_mode)


def _read_json(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def _write_json(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
