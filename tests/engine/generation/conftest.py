from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures import tiny_model


@pytest.fixture(scope="session")
def chatml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tokenizer like SmolLM2's."""
    folder = tmp_path_factory.mktemp("chatml")
    tiny_model.write_chatml_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def llama2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tokenizer like Llama 2's."""
    folder = tmp_path_factory.mktemp("llama2")
    tiny_model.write_llama2_tokenizer(folder)
    return folder
