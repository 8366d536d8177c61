from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures import tiny_model


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def socket() -> Iterator[str]:
    """Path of an engine's sockets, short enough for Unix sockets."""
    directory = Path(tempfile.mkdtemp(prefix="lt-"))
    yield str(directory / "engine")
    shutil.rmtree(directory)


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


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a whole model of random weights, with a tokenizer like SmolLM2's."""
    folder = tmp_path_factory.mktemp("model")
    tiny_model.write_chatml_tokenizer(folder)
    tiny_model.write_model(folder)
    return folder
