"""Loading a model's tokenizer exactly as vLLM does, without waiting for torch where it is not needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from .errors import LaunchError

# transformers' own rules for these lead to the plain class, so AutoTokenizer, which imports torch to find that out
# (five seconds of a core), can be left aside. Only model types whose class on file AutoTokenizer trusts.
_PLAIN_CLASSES: Final = frozenset({"TokenizersBackend", "PreTrainedTokenizerFast"})
_TRUSTED_MODEL_TYPES: Final = frozenset({"llama"})


def load_tokenizer(model: str) -> Any:
    """The tokenizer in the folder `model`, always one of the `tokenizers` library.

    Raises LaunchError when the folder or its tokenizer is missing or cannot be read.
    """
    folder = Path(model)
    if not folder.is_dir():
        raise LaunchError(f'model folder "{model}" does not exist in "{Path.cwd()}": make the model artifact first')
    try:
        tokenizer = _load(folder)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise LaunchError(f'the tokenizer in "{model}" cannot be loaded: {error}') from error
    if not getattr(tokenizer, "is_fast", False):
        raise LaunchError(
            f'the tokenizer in "{model}" is a {type(tokenizer).__name__}: streaming needs one of the tokenizers '
            "library, so save the model with its tokenizer.json"
        )
    return tokenizer


def _load(folder: Path) -> Any:
    if _is_plain(folder):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)


def _is_plain(folder: Path) -> bool:
    tokenizer_config = _read(folder / "tokenizer_config.json")
    return (
        tokenizer_config.get("tokenizer_class") in _PLAIN_CLASSES
        and "auto_map" not in tokenizer_config
        and _read(folder / "config.json").get("model_type") in _TRUSTED_MODEL_TYPES
        and (folder / "tokenizer.json").is_file()
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}
