"""Models as Triton describes them to their stubs, with the mock for an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def arguments(
    repository: Path,
    *,
    model_json: object = None,
    parameters: Mapping[str, str] | None = None,
    name: str = "m",
    version: str = "1",
    kind: str = "MODEL",
    device: int = 0,
    config: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """initialize()'s arguments; writes the version's model.json, as it is when it is a text."""
    directory = repository / version
    directory.mkdir(parents=True, exist_ok=True)
    content = {} if model_json is None else model_json
    text = content if isinstance(content, str) else json.dumps(content)
    (directory / "model.json").write_text(text, encoding="utf-8")
    described = {
        "max_batch_size": 0,
        "model_transaction_policy": {"decoupled": True},
        "parameters": {
            key: {"string_value": value} for key, value in {"ENGINE_ADAPTER": "mock", **(parameters or {})}.items()
        },
        **(config or {}),
    }
    return {
        "model_name": name,
        "model_version": version,
        "model_repository": str(repository),
        "model_instance_kind": kind,
        "model_instance_device_id": str(device),
        "model_config": json.dumps(described),
    }
