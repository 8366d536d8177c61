"""A tiny target with conversations on disk, and a head for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drafting.examples import conversation
from tests.fixtures.one_thread import one_thread
from tests.fixtures.tiny_model import write_chatml_tokenizer, write_model
from tools.drafting.architecture import Target
from tools.drafting.conversations import Dataset, write_shard

__all__ = ["one_thread"]


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """Six layers, so that the three aux layers are different ones."""
    folder = tmp_path_factory.mktemp("target") / "tiny"
    write_chatml_tokenizer(folder)
    write_model(folder, layers=6)
    return Target.read(folder)


@pytest.fixture
def data(target: Target, tmp_path: Path) -> Dataset:
    folder = tmp_path / "data"
    folder.mkdir()
    conversations = [conversation(number, length=30 + number, unseen=number % 6 == 5) for number in range(24)]
    sha256 = target.weights_sha256()
    write_shard(folder, 0, conversations, target_sha256=sha256, origin="a test")
    return Dataset.read(folder, sha256)
