"""The checkpoint that is to be quantised: whether it can be, and a fingerprint of what it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import sha256_of
from tools.artifacts.safetensors_file import TensorEntry, read_header

_DTYPES: Final = frozenset({"BF16", "F16", "F32"})
# Never quantised: they are looked up or come last, and cost little.
_NOT_QUANTIZED: Final = ("embed_tokens", "lm_head")


def check_source(folder: Path, group_size: int) -> None:
    """Raises ArtifactError for what cannot be quantised in groups of `group_size`, naming the file and the tensor."""
    config = folder / "config.json"
    if "quantization_config" in _json_object(config):
        raise ArtifactError(f'"{config}" says that the weights are quantised: name the unquantised checkpoint')
    files = weight_files(folder)
    if not files:
        raise ArtifactError(f'"{folder}" holds no *.safetensors: convert the checkpoint (save_pretrained does)')
    for file in files:
        for name, entry in read_header(file).items():
            _check_tensor(file, name, entry, group_size)


def weight_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def fingerprint(folder: Path) -> str:
    """Hash of the configuration, the tokenizer and the weights."""
    digest = hashlib.sha256()
    for file in (folder / "config.json", folder / "tokenizer.json", *weight_files(folder)):
        if file.is_file():
            digest.update(f"{file.name} {sha256_of(file)}\n".encode())
    return digest.hexdigest()


def _check_tensor(file: Path, name: str, entry: TensorEntry, group_size: int) -> None:
    if entry.dtype not in _DTYPES:
        raise ArtifactError(
            f'"{file}": tensor "{name}" is {entry.dtype}: quantise a checkpoint in {", ".join(sorted(_DTYPES))}'
        )
    if len(entry.shape) != 2 or any(part in name for part in _NOT_QUANTIZED):
        return
    inputs = entry.shape[1]
    if inputs % group_size:
        raise ArtifactError(
            f'"{file}": tensor "{name}" has {inputs} inputs, no multiple of the group size {group_size}: set '
            f'"artifacts.awq.group_size" to one that divides it, such as {_fitting_group_size(inputs)}'
        )


def _fitting_group_size(inputs: int) -> int:
    return next(size for size in (128, 64, 32, 16, 8, 4, 2, 1) if inputs % size == 0)


def _json_object(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f'"{file}" is missing: place the whole checkpoint there') from None
    except ValueError as error:
        raise ArtifactError(f'"{file}" is no JSON ({error}): place the checkpoint anew') from error
    if not isinstance(document, dict):
        raise ArtifactError(f'"{file}" holds no JSON object: place the checkpoint anew')
    return document
