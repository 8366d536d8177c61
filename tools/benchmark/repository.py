"""Model repositories that hold one vLLM model of a profile, as the profile renders it, and the router if need be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.release.file import FILE_NAME, write_release
from tools.rendering.environment import json_text
from tools.rendering.plan import ENSEMBLES, MODEL_REPOSITORY, ROUTER, rendered_files
from tools.spec.profile import Profile
from tools.spec.release import ReleaseTarget, everything_to
from tools.spec.variants import VllmVariant

from .errors import BenchmarkError

# Entries of a map that stand further down replace or add to those above: the rest of the config stays as rendered.
_MOCK_ENGINE = 'parameters { key: "ENGINE_ADAPTER" value { string_value: "mock" } }\n'


def vllm_model(profile: Profile, name: str = "") -> str:
    """The variant of that name, or the profile's first, that vLLM serves. Raises BenchmarkError."""
    names = [key for key, variant in profile.enabled_variants.items() if isinstance(variant, VllmVariant)]
    if not names:
        raise BenchmarkError(f'profile "{profile.name}" enables no variant of kind "vllm": take another profile')
    if name and name not in names:
        raise BenchmarkError(
            f'profile "{profile.name}" enables no variant "{name}" of kind "vllm": there is {", ".join(names)}'
        )
    return name or names[0]


def newest_arguments(profile: Profile, model: str) -> tuple[int, dict[str, Any]]:
    """Number and engine arguments of the newest version that the profile loads of a model that vLLM serves."""
    variant = profile.enabled_variants[model]
    assert isinstance(variant, VllmVariant)
    version = max(variant.load_versions or variant.versions)
    return version, dict(variant.versions[version])


def write_model(folder: Path, profile: Profile, model: str) -> None:
    """Write `model` with its newest version."""
    version, arguments = newest_arguments(profile, model)
    _write(folder, profile, model, version, arguments)


def write_mock_model(folder: Path, profile: Profile, model: str, arguments: Mapping[str, Any]) -> None:
    """Write `model` with an engine that computes nothing; `arguments` are the mock's."""
    version, _ = newest_arguments(profile, model)
    _write(folder, profile, model, version, arguments, _MOCK_ENGINE)


def write_router(folder: Path, profile: Profile, model: str) -> None:
    """Write the release router as rendered, with a release in which the newest version of `model` answers everybody."""
    for path, text in rendered_files(profile).items():
        if path.is_relative_to(ENSEMBLES / ROUTER):
            file = folder / path.relative_to(ENSEMBLES)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    version, _ = newest_arguments(profile, model)
    write_release(folder / ROUTER / FILE_NAME, everything_to(ReleaseTarget(model=model, version=version)))


def _write(
    folder: Path, profile: Profile, model: str, version: int, arguments: Mapping[str, Any], more_config: str = ""
) -> None:
    config = rendered_files(profile)[MODEL_REPOSITORY / model / "config.pbtxt"]
    target = folder / model / str(version)
    target.mkdir(parents=True)
    (target.parent / "config.pbtxt").write_text(config + more_config, encoding="utf-8")
    (target / "model.json").write_text(json_text(dict(arguments)) + "\n", encoding="utf-8")
