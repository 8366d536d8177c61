"""What a stub is told about its model: the arguments of initialize(), read once into a typed value."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.wire.launch import AdapterName, EngineLaunch

from .supervisor import Place

# tools/backends/model_config.py: three levels up is the folder that holds the package `tools`.
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class ModelConfig:
    """One version of one model, as Triton describes it to its stub.

    `parameters` are config.pbtxt's, values as text. `arguments` is the version's model.json. `siblings` are the other
    version folders of the model. `kind` and `device` are the instance's.
    """

    name: str
    version: str
    directory: Path
    kind: str
    device: int
    max_batch_size: int
    decoupled: bool
    parameters: Mapping[str, str]
    arguments: Mapping[str, Any]
    siblings: tuple[str, ...]

    @classmethod
    def from_arguments(cls, args: Mapping[str, str]) -> ModelConfig:
        """Read initialize()'s arguments. Raises ValueError for a missing or broken model.json."""
        config = json.loads(args["model_config"])
        repository = Path(args["model_repository"])
        directory = repository / args["model_version"]
        versions = [entry.name for entry in repository.iterdir() if entry.is_dir() and entry.name.isdecimal()]
        return cls(
            name=args["model_name"],
            version=args["model_version"],
            directory=directory,
            kind=args["model_instance_kind"],
            device=int(args["model_instance_device_id"]),
            max_batch_size=config["max_batch_size"],
            decoupled=config.get("model_transaction_policy", {}).get("decoupled", False),
            parameters={key: value["string_value"] for key, value in config.get("parameters", {}).items()},
            arguments=_read_arguments(directory / "model.json"),
            siblings=tuple(sorted(set(versions) - {args["model_version"]})),
        )

    def adapter(self, own: AdapterName) -> AdapterName:
        """The backend's own adapter, or the mock that tests and benches name with ENGINE_ADAPTER in config.pbtxt."""
        return "mock" if self.parameters.get("ENGINE_ADAPTER") == "mock" else own

    def launch(self, adapter: AdapterName, *, metrics: bool = False) -> EngineLaunch:
        """What the model's engine is told at its start."""
        return EngineLaunch(
            adapter=adapter,
            model=self.name,
            version=self.version,
            socket="",
            model_directory=str(self.directory),
            arguments=dict(self.arguments),
            parameters=dict(self.parameters),
            metrics=metrics,
        )

    def require_decoupled(self) -> None:
        """Raises ValueError for a model that could not stream."""
        if not self.decoupled:
            raise ValueError(
                f'"{self.name}" streams its answers: write model_transaction_policy {{ decoupled: true }} in '
                "config.pbtxt"
            )

    def require_unbatched(self, why: str) -> None:
        """Raises ValueError for a model whose requests Triton would batch; `why` it must not, as in "because ..."."""
        if self.max_batch_size:
            raise ValueError(f'"{self.name}" has max_batch_size {self.max_batch_size}: write 0, {why}')

    def place(self) -> Place:
        """Where this model's engine runs; ENGINE_PYTHON in config.pbtxt gives a model an interpreter of its own."""
        return Place(
            python=self.parameters.get("ENGINE_PYTHON") or os.environ.get("LADDER_ENGINE_PYTHON") or "python3",
            root=_ROOT,
            home=Path(os.environ.get("LADDER_HOME") or Path.cwd()),
            sockets=_sockets_directory(),
        )

    def engine_environment(self) -> dict[str, str]:
        """Environment variables of the engine: ENGINE_ENVIRONMENT (a JSON object) and the instance's GPU.

        Raises ValueError when ENGINE_ENVIRONMENT is something else.
        """
        text = self.parameters.get("ENGINE_ENVIRONMENT", "{}")
        try:
            environment = json.loads(text)
        except ValueError:
            environment = None
        if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
            raise ValueError(
                f'parameter "ENGINE_ENVIRONMENT" of "{self.name}" is {text}: write a JSON object whose values are '
                'strings, such as {"HF_HUB_OFFLINE": "1"}'
            )
        # KIND_MODEL leaves the choice of GPUs to the engine; KIND_GPU pins the instance to one.
        pinned = {"CUDA_VISIBLE_DEVICES": str(self.device)} if self.kind == "GPU" else {}
        return {**environment, **pinned}


def _read_arguments(path: Path) -> Mapping[str, Any]:
    try:
        arguments = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f'"{path}" is missing: it must hold the engine arguments as a JSON object') from None
    except ValueError as error:
        raise ValueError(f'"{path}" is not valid JSON: {error}') from error
    if not isinstance(arguments, dict):
        raise ValueError(f'"{path}" must hold a JSON object of engine arguments, not a {type(arguments).__name__}')
    return arguments


def _sockets_directory() -> Path:
    configured = os.environ.get("LADDER_SOCKETS")
    if not configured:
        return Path(tempfile.mkdtemp(prefix="ladder-"))
    directory = Path(configured)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
