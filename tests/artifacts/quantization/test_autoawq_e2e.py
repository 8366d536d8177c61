"""AutoAWQ as it is, in the quantize environment, on a tiny model that has learned the held-out texts.

The environment is built when it is missing (a minute or two).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.artifacts.quantization.home import profile_of, write_worker
from tests.fixtures.learned_model import write_learned_model
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Manifest
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import PYTHON, Options, quantize
from tools.bootstrap.environments import QUANTIZE
from tools.bootstrap.layout import Layout
from tools.bootstrap.preparation import prepare
from tools.spec.model import QualityBar

pytestmark = [pytest.mark.e2e, pytest.mark.light, pytest.mark.timeout(900)]

REPOSITORY = Layout.of_this_checkout()

# The real process, with something changed in it first.
ENTRY = """
import os, signal, sys
from pathlib import Path
sys.path[0] = {home!r}
from tools.artifacts.quantization.worker import autoawq
{change}
from tools.artifacts.quantization.worker.main import main
sys.exit(main(Path(sys.argv[1])))
"""
# What AutoAWQ 0.2.9 does by itself.
STOCK = "del autoawq.ResumableQuantizer._compute_best_scale"
KILLED_AFTER_THE_FIRST_LAYER = """
save = autoawq.LayerStore.save
def save_and_die(self, number, tensors):
    save(self, number, tensors)
    os.kill(os.getpid(), signal.SIGKILL)
autoawq.LayerStore.save = save_and_die
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "tiny"
    write_learned_model(folder)
    return folder


@pytest.fixture
def layout(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    prepare([QUANTIZE], REPOSITORY)
    monkeypatch.setenv(PYTHON, str(REPOSITORY.environment_python(QUANTIZE.name)))
    layout = Layout(tmp_path)
    layout.models.mkdir()
    (layout.models / "tiny").symlink_to(source)
    return layout


def make(layout: Layout, change: str = "", steps: list[Step] | None = None) -> Manifest:
    write_worker(layout, ENTRY.format(home=str(REPOSITORY.home), change=change))
    # Rounding costs a model this small next to nothing, so that AWQ has little to win.
    profile = profile_of(layout, QualityBar(max_share_of_rounding=1.5))
    return quantize(profile, layout, [].append if steps is None else steps.append, Options(calibration_tokens=2048))


def test_the_repaired_quantiser_passes_and_the_stock_one_is_caught(layout: Layout) -> None:
    repaired = make(layout)
    assert repaired.gate is not None
    assert repaired.gate.passed, repaired.gate.reasons
    assert repaired.quantization is not None
    assert repaired.quantization.calibration.tokens == 2048

    (layout.models / "tiny-awq").rename(layout.models / "repaired")
    stock = make(layout, STOCK)
    assert stock.gate is not None
    assert not stock.gate.passed, stock.gate.reasons
    assert stock.quantization is not None
    assert stock.quantization.losses.quantized > stock.quantization.losses.rounded
    assert stock.quantization.losses.rounded > repaired.quantization.losses.quantized


def test_a_killed_run_goes_on_after_its_last_layer_and_ends_with_the_same_weights(layout: Layout) -> None:
    make(layout)
    whole = load_file(layout.models / "tiny-awq" / "model.safetensors")
    (layout.models / "tiny-awq").rename(layout.models / "whole")

    with pytest.raises(ArtifactError, match="could not be made"):
        make(layout, KILLED_AFTER_THE_FIRST_LAYER)
    assert not (layout.models / "tiny-awq").exists()
    steps: list[Step] = []
    resumed = make(layout, steps=steps)
    assert resumed.quantization is not None
    assert resumed.quantization.resumed_layers == 1
    assert [step.done for step in steps if step.phase == "quantising"] == [1, 2]
    continued = load_file(layout.models / "tiny-awq" / "model.safetensors")
    assert continued.keys() == whole.keys()
    assert all(continued[name].equal(tensor) for name, tensor in whole.items())


def test_the_quantiser_sees_the_rotary_base_of_the_source(layout: Layout) -> None:
    seen = "print('theta', autoawq_theta, file=sys.stderr)"
    change = f"""
quantize = autoawq.ResumableQuantizer.quantize
def shown(self):
    autoawq_theta = self.model.config.rope_theta
    {seen}
    quantize(self)
autoawq.ResumableQuantizer.quantize = shown
"""
    make(layout, change)
    [log] = layout.logs.glob("*.log")
    assert "theta 50000.0" in log.read_text(encoding="utf-8")


def test_an_unsupported_architecture_is_named(layout: Layout, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in source.iterdir():
        (other / file.name).symlink_to(file)
    config = (source / "config.json").read_text(encoding="utf-8").replace('"llama"', '"olmo"')
    (other / "config.json").unlink()
    (other / "config.json").write_text(config, encoding="utf-8")
    (layout.models / "tiny").unlink()
    (layout.models / "tiny").symlink_to(other)
    with pytest.raises(ArtifactError, match=r"AutoAWQ cannot quantise this model: olmo isn't supported yet"):
        make(layout)
