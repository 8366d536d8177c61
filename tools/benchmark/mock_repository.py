"""A model repository with a profile's own vLLM config and an engine that generates without computing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.rendering.environment import json_text
from tools.rendering.plan import MODEL_REPOSITORY, rendered_files
from tools.spec.profile import Profile
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


def write_mock_repository(folder: Path, profile: Profile, model: str, arguments: Mapping[str, Any]) -> None:
    """Write `model` as the profile renders it, with the mock engine and its `arguments` in place of vLLM's."""
    files = rendered_files(profile)
    config = files[MODEL_REPOSITORY / model / "config.pbtxt"]
    version = folder / model / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config + _MOCK_ENGINE, encoding="utf-8")
    (version / "model.json").write_text(json_text(dict(arguments)) + "\n", encoding="utf-8")
