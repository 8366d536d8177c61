"""How many tokens the model under test makes of a text, by its own tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from loadtest.errors import LoadTestError

FILE_NAME: Final = "tokenizer.json"


def load_tokenizer(path: Path) -> Callable[[str], int]:
    """Counts tokens, special ones that the tokenizer adds (such as BOS) included.

    Args:
        path: a tokenizer.json, or the folder of a model that holds one.

    Raises:
        LoadTestError: there is none, or it cannot be read.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise LoadTestError(
            f'tokenizer "{file}" is no file: give the {FILE_NAME} of the model under test, or the folder it lies in'
        )
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # it raises nothing narrower
        raise LoadTestError(
            f'tokenizer "{file}" cannot be read ({error}): give the {FILE_NAME} of the model under test'
        ) from error
    return lambda text: len(tokenizer.encode(text).ids)
