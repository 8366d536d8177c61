"""Everything around the quantising process, with a process that writes what a test wants it to."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.artifacts.quantization.home import profile_of, write_worker
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Manifest
from tools.artifacts.quantization import run
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import PYTHON, Options, interpreter, quantize, recipe_for
from tools.artifacts.quantization.texts import HELDOUT
from tools.bootstrap.environments import QUANTIZE
from tools.bootstrap.layout import Layout
from tools.spec.loading import load_profile

pytestmark = pytest.mark.slow

# Counts its calls beside the folder it works in, which is not there afterwards.
WORKER = """
import json, os, pathlib, sys
work = pathlib.Path(sys.argv[1])
with open(work.parent / "calls", "a", encoding="utf-8") as calls:
    print(os.environ["OMP_WAIT_POLICY"], sorted(file.name for file in work.iterdir()), file=calls)
print(json.dumps({{"phase": "quantising", "done": 1, "total": 2, "seconds_left": 3.0}}), flush=True)
(work / "layers").mkdir(exist_ok=True)
(work / "layers" / "0000.safetensors").touch()
{before}
result = work / "result"
result.mkdir()
(result / "config.json").write_text("{{}}")
losses = {{"heldout_sha256": "0", "tokens": 9, "original": 2.15, "rounded": 2.37, "quantized": {quantized}}}
calibration = {{"sha256": "0", "texts": 1, "texts_cut": 0, "tokens": 9, "tokens_left_out": 0}}
(work / "outcome.json").write_text(json.dumps({{
    "device": "cpu", "threads": 1, "seconds": 1.0, "resumed_layers": 0, "calibration": calibration,
    "losses": losses, "versions": {{"autoawq": "0.2.9"}},
}}))
"""


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    layout = Layout(tmp_path)
    source = layout.models / "tiny"
    source.mkdir(parents=True)
    save_file({"model.layers.0.mlp.up_proj.weight": np.zeros((8, 192), np.float16)}, source / "model.safetensors")
    (source / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv(PYTHON, sys.executable)
    behaves(layout)
    return layout


def behaves(layout: Layout, before: str = "", quantized: float = 2.23) -> None:
    write_worker(layout, WORKER.format(before=before, quantized=quantized))


def make(layout: Layout, report: Callable[[Step], None] = lambda _: None, *, anew: bool = False) -> Manifest:
    return quantize(profile_of(layout), layout, report, Options(), anew=anew)


def calls(layout: Layout) -> list[str]:
    return (layout.models / "calls").read_text(encoding="utf-8").splitlines()


def entries(layout: Layout) -> set[str]:
    return {entry.name for entry in layout.models.iterdir() if entry.suffix != ".lock"} - {"calls", "tiny"}


def test_the_artifact_appears_whole_with_its_manifest_and_is_made_once(layout: Layout) -> None:
    steps: list[str] = []
    manifest = make(layout, lambda step: steps.append(str(step)))
    assert steps == ["hashing the checkpoint", "quantising, 1 of 2 layers, 0:03 left"]
    again: list[str] = []
    assert Manifest.read(layout.models / "tiny-awq") == manifest == make(layout, lambda step: again.append(str(step)))
    assert again == ["it is there already; --force makes it anew"]
    assert len(calls(layout)) == 1
    assert entries(layout) == {"tiny-awq"}
    assert manifest.gate is not None
    assert manifest.gate.passed
    assert manifest.quantization is not None
    assert manifest.quantization.recipe.group_size == 64
    assert manifest.quantization.losses.quantized == 2.23
    assert (manifest.source, manifest.versions, manifest.dtype) == ("models/tiny", {"autoawq": "0.2.9"}, "INT4")


def test_what_fails_the_gate_is_kept_and_says_so(layout: Layout) -> None:
    behaves(layout, quantized=12.75)
    manifest = make(layout)
    assert manifest.gate is not None
    assert not manifest.gate.passed
    assert Manifest.read(layout.models / "tiny-awq") == manifest


def test_anew_replaces_the_artifact_only_when_the_new_one_is_whole(layout: Layout) -> None:
    behaves(layout, quantized=12.75)
    first = make(layout)
    behaves(layout, before="sys.exit('no')")
    with pytest.raises(ArtifactError):
        make(layout, anew=True)
    assert Manifest.read(layout.models / "tiny-awq") == first
    behaves(layout)
    assert make(layout, anew=True) != first
    assert entries(layout) == {"tiny-awq"}


def test_a_failure_names_the_source_and_shows_the_reason_and_keeps_finished_layers(layout: Layout) -> None:
    behaves(layout, before="sys.exit('the reason')")
    with pytest.raises(ArtifactError) as failure:
        make(layout)
    source = (layout.models / "tiny").resolve()
    assert str(failure.value) == f'the autoawq checkpoint of "{source}" could not be made:\n  the reason'
    assert entries(layout) == {".tiny-awq.quantizing"}
    behaves(layout)
    make(layout)
    assert "layers" not in calls(layout)[0]
    assert "layers" in calls(layout)[1]
    assert entries(layout) == {"tiny-awq"}


@pytest.mark.parametrize("change", ["source", "recipe", "calibration", "lock"])
def test_layers_of_another_job_are_not_taken(layout: Layout, tmp_path: Path, change: str) -> None:
    behaves(layout, before="sys.exit('the reason')")
    with pytest.raises(ArtifactError):
        make(layout)
    profile, options = profile_of(layout), Options()
    behaves(layout)
    if change == "source":
        (layout.models / "tiny" / "config.json").write_text('{"x": 1}', encoding="utf-8")
    elif change == "recipe":
        profile = profile_of(layout, group_size=32)
    elif change == "calibration":
        other = tmp_path / "other.txt"
        other.write_text("Other text.", encoding="utf-8")
        options = Options(calibration=other)
    else:
        (layout.locks / "quantize.txt").write_text("one==2\n", encoding="utf-8")
    quantize(profile, layout, lambda _: None, options)
    assert "layers" not in calls(layout)[1]


def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(layout)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    make(layout, anew=True)
    assert [call.split()[0] for call in calls(layout)] == ["PASSIVE", "ACTIVE"]


def test_a_damaged_artifact_is_named_and_replaced_on_demand(layout: Layout) -> None:
    make(layout)
    (layout.models / "tiny-awq" / "config.json").unlink()
    with pytest.raises(ArtifactError, match=r'tiny-awq" is damaged \(config.json missing or cut short\): delete it'):
        make(layout)
    assert make(layout, anew=True).files == {"config.json": 2}


def test_nothing_is_started_on_a_disk_without_room(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(
        ArtifactError, match=r'quantising ".*tiny" needs 0.0 GB in ".*models", 0.0 GB are free: free some'
    ):
        make(layout)
    assert entries(layout) == set()


def test_a_group_size_that_does_not_fit_is_refused_before_anything_is_written(layout: Layout) -> None:
    with pytest.raises(ArtifactError, match="has 192 inputs, no multiple of the group size 128"):
        quantize(profile_of(layout, group_size=128), layout, lambda _: None, Options())
    assert entries(layout) == set()


def test_calibration_on_the_held_out_texts_is_refused(layout: Layout) -> None:
    with pytest.raises(ArtifactError, match=r'heldout.jsonl" holds texts of the held-out set'):
        quantize(profile_of(layout), layout, lambda _: None, Options(calibration=HELDOUT))


def test_a_profile_without_awq_is_told_what_to_add(layout: Layout) -> None:
    profile = load_profile("cpu-smollm2")
    without = profile.model_copy(update={"artifacts": profile.artifacts.model_copy(update={"awq": None})})
    with pytest.raises(ArtifactError, match=r'profile "cpu-smollm2" names no "artifacts.awq": add its path and group'):
        quantize(without, layout, lambda _: None, Options())


def test_a_gpu_profile_wants_an_interpreter_with_cuda(layout: Layout) -> None:
    profile = load_profile("h200-llama2-7b")
    with pytest.raises(ArtifactError, match=rf'profile "h200-llama2-7b" is for NVIDIA GPUs.*set {PYTHON} to'):
        interpreter(profile, QUANTIZE, layout, {})
    assert interpreter(profile, QUANTIZE, layout, {PYTHON: sys.executable}) == Path(sys.executable)
    with pytest.raises(ArtifactError, match=rf'{PYTHON} is "/no/python", which cannot be run: name a Python'):
        interpreter(profile, QUANTIZE, layout, {PYTHON: "/no/python"})
    assert interpreter(profile_of(layout), QUANTIZE, layout, {}) == layout.environment_python("quantize")


def test_the_recipe_is_what_the_machine_has_time_for() -> None:
    recipes = {}
    for name in ("cpu-smollm2", "a100-llama2-7b"):
        profile = load_profile(name)
        assert profile.artifacts.awq is not None
        recipes[name] = recipe_for(profile, profile.artifacts.awq, Options())
    assert (recipes["cpu-smollm2"].clip_search, recipes["cpu-smollm2"].calibration_tokens) == (False, 4096)
    assert (recipes["a100-llama2-7b"].clip_search, recipes["a100-llama2-7b"].calibration_tokens) == (True, 65536)
    assert recipes["cpu-smollm2"].group_size == 64


def test_what_the_user_chooses_goes_into_the_recipe(layout: Layout) -> None:
    profile = profile_of(layout)
    assert profile.artifacts.awq is not None
    recipe = recipe_for(profile, profile.artifacts.awq, Options(calibration_tokens=100, clip_search=True))
    assert (recipe.calibration_tokens, recipe.sequence_length, recipe.clip_search) == (100, 100, True)


def test_the_environment_is_prepared_where_no_interpreter_is_named(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PYTHON)
    steps: list[str] = []

    def prepare(environments: list[object], _: Layout, progress: object) -> None:
        steps.append("prepared")
        python = layout.environment_python("quantize")
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)

    monkeypatch.setattr(run, "prepare", prepare)
    make(layout, lambda step: steps.append(step.phase))
    assert steps == ["hashing the checkpoint", "prepared", "quantising"]


def test_a_job_left_half_written_is_begun_anew(layout: Layout) -> None:
    work = layout.models / ".tiny-awq.quantizing"
    work.mkdir()
    (work / "job.json").write_text(json.dumps({"source": "x"}), encoding="utf-8")
    (work / "layers").mkdir()
    make(layout)
    assert "layers" not in calls(layout)[0]
