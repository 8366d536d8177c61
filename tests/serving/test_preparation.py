from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.artifacts import provision
from tools.artifacts.errors import ArtifactError
from tools.artifacts.manifest import Gate, Manifest
from tools.artifacts.quantization.recipe import Step
from tools.artifacts.quantization.run import Options
from tools.bootstrap.environments import ENGINE, Stamp
from tools.bootstrap.layout import Layout
from tools.serving import preparation
from tools.serving.errors import ServingError
from tools.serving.preparation import check_engine, needed_artifacts, prepare, rendering_root
from tools.spec.loading import load_profile
from tools.spec.profile import Profile

BF16 = "models/smollm2-135m-instruct"
AWQ = "models/smollm2-135m-instruct-awq"
HEAD = "tools/artifacts/heads/smollm2-135m-instruct-eagle3"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def place_checkpoint(layout: Layout, path: str) -> None:
    folder = layout.home / path
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").touch()


@pytest.mark.slow
def test_artifact_repositories_and_lint_are_prepared_in_that_order(layout: Layout) -> None:
    for path in (BF16, AWQ, HEAD):
        place_checkpoint(layout, path)
    steps: list[str] = []
    prepared = prepare(load_profile("cpu-smollm2"), layout, steps.append)
    assert steps == [BF16, AWQ, HEAD, "rendering the repositories", "linting them"]
    assert prepared.repositories == (layout.home / "model_repository", layout.home / "ensembles")
    assert (prepared.repositories[0] / "llm_bf16" / "config.pbtxt").is_file()
    assert prepared.lint.models == 10


def test_a_missing_head_is_refused_before_anything_is_rendered(layout: Layout) -> None:
    for path in (BF16, AWQ):
        place_checkpoint(layout, path)
    with pytest.raises(ArtifactError, match=rf'there is no draft head at ".*{HEAD}" .*: \./ladder draft train --out'):
        prepare(load_profile("cpu-smollm2"), layout, lambda _: None)
    assert not (layout.home / "model_repository").exists()


def test_the_committed_repositories_belong_to_the_default_profile_alone(layout: Layout) -> None:
    committed = load_profile("cpu-smollm2")
    assert rendering_root(committed, layout) == layout.home
    changed = committed.model_copy(update={"sla": committed.sla.model_copy(update={"ttft_ms": 1.0})})
    assert rendering_root(changed, layout) == layout.home / ".ladder/rendered/cpu-smollm2"
    assert rendering_root(load_profile("h200-llama2-7b"), layout) == layout.home / ".ladder/rendered/h200-llama2-7b"


def test_only_artifacts_of_enabled_variants_are_needed() -> None:
    profile = load_profile("a100-llama2-7b")
    assert needed_artifacts(profile) == ["models/llama-2-7b-chat"]
    everything = profile.model_copy(
        update={
            "variants": {
                name: variant.model_copy(update={"enabled": True}) for name, variant in profile.variants.items()
            }
        }
    )
    assert set(needed_artifacts(everything)) == {
        "models/llama-2-7b-chat",
        "models/llama-2-7b-chat-awq",
        "models/llama-2-7b-chat-eagle3",
    }


@pytest.mark.parametrize(
    ("models", "paths"),
    [
        ((), [BF16, AWQ, HEAD]),
        (("llm_bf16", "chat_baseline"), [BF16]),
        (("llm_awq",), [BF16, AWQ]),
        (("chat_awq",), [BF16, AWQ]),
        (("chat_eagle",), [BF16, HEAD]),
        (("chat_tokenizer",), [BF16]),
    ],
)
def test_models_that_are_not_asked_for_need_no_artifact(models: tuple[str, ...], paths: list[str]) -> None:
    assert needed_artifacts(load_profile("cpu-smollm2"), models) == paths


def test_a_gpu_profile_wants_an_interpreter_with_the_cuda_build(layout: Layout) -> None:
    profile = load_profile("h200-llama2-7b")
    with pytest.raises(ServingError, match=r'profile "h200-llama2-7b" is for NVIDIA GPUs.*set LADDER_ENGINE_PYTHON'):
        check_engine(profile, {}, layout)
    check_engine(profile, {"LADDER_ENGINE_PYTHON": "/cuda/bin/python"}, layout)
    check_engine(load_profile("cpu-smollm2"), {}, layout)
    python = layout.environment_python(ENGINE.name)
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    Stamp("", "3.12.3", None, kit="/kit", accelerator="cuda").write(ENGINE, layout)
    check_engine(profile, {}, layout)


@pytest.mark.slow
def test_missing_awq_weights_are_quantised(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (BF16, HEAD):
        place_checkpoint(layout, path)

    def quantize(profile: Profile, layout: Layout, report: Callable[[Step], None], options: Options) -> None:
        assert options == Options()
        report(Step(phase="quantising", done=1, total=30, seconds_left=65))
        place_checkpoint(layout, AWQ)

    monkeypatch.setattr(provision, "quantize", quantize)
    steps: list[str] = []
    prepare(load_profile("cpu-smollm2"), layout, steps.append)
    assert steps[1:3] == [AWQ, "making it: quantising, 1 of 30 layers, 1:05 left"]


@pytest.mark.slow
def test_weights_that_failed_their_gate_are_refused_unless_accepted(layout: Layout) -> None:
    for path in (BF16, AWQ, HEAD):
        place_checkpoint(layout, path)
    failed = Gate(passed=False, reasons=("perplexity 8.58 became 344551.90",))
    Manifest(
        name="awq", source=BF16, source_sha256="0", versions={}, tensors=1, dtype="INT4", files={}, gate=failed
    ).write(layout.home / AWQ)
    profile = load_profile("cpu-smollm2")
    with pytest.raises(ArtifactError, match=f'{AWQ}" failed its quality gate: perplexity 8.58 became 344551.90'):
        prepare(profile, layout, lambda _: None)
    assert not (layout.home / "model_repository").exists()
    assert prepare(profile, layout, lambda _: None, accept_failed_artifacts=True).lint.models == 10


def test_half_written_awq_weights_are_named(layout: Layout) -> None:
    for path in (BF16, AWQ):
        place_checkpoint(layout, path)
    (layout.home / AWQ / "model.safetensors").unlink()
    expected = rf'{AWQ}" is damaged \(config.json or weights missing or cut short\): delete it and run'
    with pytest.raises(ArtifactError, match=expected):
        prepare(load_profile("cpu-smollm2"), layout, lambda _: None)


def test_a_missing_checkpoint_is_named_before_anything_is_rendered(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "check_engine", lambda *_: None)
    with pytest.raises(ArtifactError, match=r'"Llama-2-7B-Chat" is not at ".*models/llama-2-7b-chat"'):
        prepare(load_profile("h200-llama2-7b"), layout, lambda _: None)
    assert not layout.private.exists()
