"""The command lines of the stages: what becomes of them, and that one stage's is what another writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from tools.drafting.__main__ import _parser, _settings
from tools.drafting.acceptance import AcceptanceSettings
from tools.drafting.generation import WritingSettings
from tools.drafting.training import TrainingSettings
from tools.drafting.writing import _options

FOLDERS = ["--target", "t", "--work", "w"]


def read(arguments: list[str], model: type[BaseModel]) -> BaseModel:
    return _settings(model, _parser().parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (["generate", *FOLDERS, "--tokens", "9"], WritingSettings(tokens=9)),
        (["train", *FOLDERS, "--head", "h"], TrainingSettings()),
        (["accept", "--target", "t", "--head", "h"], AcceptanceSettings()),
    ],
)
def test_what_is_not_asked_for_is_the_default(arguments: list[str], settings: BaseModel) -> None:
    assert read(arguments, type(settings)) == settings


def test_every_setting_has_an_option() -> None:
    arguments = [
        "train",
        *FOLDERS,
        "--head",
        "h",
        "--epochs",
        "2",
        "--learning-rate",
        "1e-4",
        "--draft-vocab-size",
        "8",
    ]
    assert read(arguments, TrainingSettings) == TrainingSettings(epochs=2, learning_rate=1e-4, draft_vocab_size=8)
    measured = ["accept", "--target", "t", "--head", "h", "--prompts", "7", "--at-once", "2"]
    assert read(measured, AcceptanceSettings) == AcceptanceSettings(prompts=7, at_once=2)


@pytest.mark.parametrize("prompts", [None, Path("/some/prompts.txt")])
def test_an_engine_reads_the_settings_that_it_was_started_with(prompts: Path | None) -> None:
    settings = WritingSettings(tokens=100, seconds=7.5, longest=64, at_once=3, seed=2, prompts=prompts)
    line = ["write", *FOLDERS, "--writer", "0", "--writers", "2", *_options(settings, tokens=50)]
    assert read(line, WritingSettings) == settings.model_copy(update={"tokens": 50})


def test_a_setting_without_a_default_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(["generate", *FOLDERS])
    assert "the following arguments are required: --tokens" in capsys.readouterr().err


def test_the_help_names_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(["generate", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--longest LONGEST tokens of a conversation, prompt included; default 512" in shown
