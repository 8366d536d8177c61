"""llm-compressor as it is, in its environment, on a tiny model that has seen the held-out texts often."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.artifacts.quantization.home import WORKER, profile_of
from tests.fixtures.learned_model import write_learned_model
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import PYTHON, Options, quantize
from tools.bootstrap.environments import LLMCOMPRESSOR
from tools.bootstrap.layout import Layout
from tools.bootstrap.preparation import prepare
from tools.spec.model import QualityBar

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(900)]

REPOSITORY = Layout.of_this_checkout()


def test_the_result_is_compressed_tensors_and_judged_by_the_same_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare([LLMCOMPRESSOR], REPOSITORY)
    monkeypatch.setenv(PYTHON, str(REPOSITORY.environment_python(LLMCOMPRESSOR.name)))
    layout = Layout(tmp_path)
    write_learned_model(layout.models / "tiny")
    (tmp_path / WORKER.parts[0]).symlink_to(REPOSITORY.home / WORKER.parts[0])
    steps: list[Step] = []

    profile = profile_of(layout, QualityBar(max_share_of_rounding=1.5))
    made = quantize(profile, layout, steps.append, Options(method="llmcompressor"))

    assert made.gate is not None
    assert made.gate.passed, made.gate.reasons
    assert [step.done for step in steps if step.phase == "quantising"] == [0, 1, 2]
    config = json.loads((layout.models / "tiny-awq" / "config.json").read_text(encoding="utf-8"))
    assert config["quantization_config"]["quant_method"] == "compressed-tensors"
    assert set(made.versions) >= {"llmcompressor", "compressed-tensors"}
