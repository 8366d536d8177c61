from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.backends.models import arguments
from tests.fixtures import fake_pb_utils
from tools.backends.model_config import ModelConfig
from tools.backends.unloading import take_out_of_service


def test_a_model_with_one_version_is_unloaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path, name="llm")), "it died")
    assert fake_pb_utils.unloaded == ["llm"]
    assert "given up, unloading the model: it died" in caplog.text


def test_other_versions_are_left_to_serve(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "2").mkdir()
    take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path)), "it died")
    assert fake_pb_utils.unloaded == []
    assert "given up: it died; other versions of the model serve on" in caplog.text


def test_a_server_that_does_not_unload_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise fake_pb_utils.TritonModelException("not in explicit mode")

    monkeypatch.setattr(fake_pb_utils, "unload_model", refuse)
    with caplog.at_level(logging.ERROR):
        take_out_of_service(ModelConfig.from_arguments(arguments(tmp_path)), "it died")
    assert "the model cannot be unloaded: its requests fail with UNAVAILABLE one by one" in caplog.text
    assert "not in explicit mode" in caplog.text
