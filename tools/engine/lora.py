"""LoRA adapters of a model version, from the `multi_lora.json` beside its model.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import LaunchError, invalid


class LoraTable:
    """Names and paths of the adapters; an adapter's number is its place in the file, from 1."""

    def __init__(self, paths: Mapping[str, str] | None) -> None:
        self._paths = paths
        self._numbers = {name: number for number, name in enumerate(paths or (), start=1)}

    @classmethod
    def load(cls, model_directory: Path, arguments: Mapping[str, Any]) -> LoraTable:
        """The table, empty when `enable_lora` is not set. Raises LaunchError for a missing or broken file."""
        if str(arguments.get("enable_lora", False)).lower() != "true":
            return cls(None)
        path = model_directory / "multi_lora.json"
        try:
            paths = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise LaunchError(
                f'"{path}" is missing: "enable_lora" is set, so it must map each adapter\'s name to its path'
            ) from None
        except ValueError as error:
            raise LaunchError(f'"{path}" is not valid JSON: {error}') from error
        if not isinstance(paths, dict) or not all(isinstance(value, str) for value in paths.values()):
            raise LaunchError(f'"{path}" must be a JSON object of adapter names and paths')
        return cls(paths)

    def find(self, name: str | None) -> tuple[str, int, str] | None:
        """Name, number and path of an adapter; None for no name. Raises RequestError for one that is not there."""
        if name is None:
            return None
        if self._paths is None:
            raise invalid(f'sampling parameter "lora_name" is "{name}": this model has LoRA turned off ("enable_lora")')
        if name not in self._paths:
            known = ", ".join(f'"{known}"' for known in self._paths) or "none"
            raise invalid(f'sampling parameter "lora_name" is "{name}": multi_lora.json has {known}')
        return name, self._numbers[name], self._paths[name]
