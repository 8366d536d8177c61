"""What keeps the router from loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.backends.models import arguments
from tests.fixtures.fake_pb_utils import TritonModelException
from tools.backends.router.model import TritonPythonModel

DECOUPLED = {"model_transaction_policy": {"decoupled": True}}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"model_transaction_policy": {}}, '"chat" streams its answers: write model_transaction_policy'),
        ({"max_batch_size": 4}, '"chat" has max_batch_size 4: write 0, because its requests go to engines one by one'),
    ],
)
def test_a_config_that_cannot_work_is_refused(places: Path, tmp_path: Path, config: dict[str, Any], text: str) -> None:
    with pytest.raises(TritonModelException, match=text.replace("(", r"\(")):
        TritonPythonModel().initialize(arguments(tmp_path / "chat", name="chat", config=DECOUPLED | config))


def test_without_a_folder_for_sockets_there_are_no_engines_to_be_found(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LADDER_SOCKETS")
    with pytest.raises(TritonModelException, match='"chat" finds the engines of its targets in the folder LADDER_SOCK'):
        TritonPythonModel().initialize(arguments(tmp_path / "chat", name="chat"))
