from __future__ import annotations

from pathlib import Path

import pytest

from tools.artifacts.errors import ArtifactError
from tools.bootstrap.layout import Layout
from tools.serving import preparation
from tools.serving.errors import ServingError
from tools.serving.preparation import check_engine, needed_artifacts, prepare, rendering_root
from tools.spec.loading import load_profile


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


HEAD = "tools/artifacts/heads/smollm2-135m-instruct-eagle3"


def place_checkpoint(layout: Layout, path: str) -> None:
    folder = layout.home / path
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").touch()


def test_artifact_repositories_and_lint_are_prepared_in_that_order(layout: Layout) -> None:
    place_checkpoint(layout, "models/smollm2-135m-instruct")
    place_checkpoint(layout, HEAD)
    steps: list[str] = []
    prepared = prepare(load_profile("cpu-smollm2"), layout, steps.append)
    assert steps == ["models/smollm2-135m-instruct", HEAD, "rendering the repositories", "linting them"]
    assert prepared.repositories == (layout.home / "model_repository", layout.home / "ensembles")
    assert (prepared.repositories[0] / "llm_bf16" / "config.pbtxt").is_file()
    assert prepared.lint.models == 7


def test_a_missing_head_is_refused_before_anything_is_rendered(layout: Layout) -> None:
    place_checkpoint(layout, "models/smollm2-135m-instruct")
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


def test_a_gpu_profile_wants_an_interpreter_with_the_cuda_build() -> None:
    profile = load_profile("h200-llama2-7b")
    with pytest.raises(ServingError, match=r'profile "h200-llama2-7b" is for NVIDIA GPUs.*set LADDER_ENGINE_PYTHON'):
        check_engine(profile, {})
    check_engine(profile, {"LADDER_ENGINE_PYTHON": "/cuda/bin/python"})
    check_engine(load_profile("cpu-smollm2"), {})


def test_a_missing_checkpoint_is_named_before_anything_is_rendered(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "check_engine", lambda *_: None)
    with pytest.raises(ArtifactError, match=r'"Llama-2-7B-Chat" is not at ".*models/llama-2-7b-chat"'):
        prepare(load_profile("h200-llama2-7b"), layout, lambda _: None)
    assert not layout.private.exists()
