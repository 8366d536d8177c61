"""Which models a server's repositories hold, and in what order to load them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tools.serving.errors import ServingError

SLOWEST_BACKEND = "vllm"


@dataclass(frozen=True)
class RepositoryModel:
    """A model folder. `steps` are the models an ensemble is made of, empty for any other model."""

    name: str
    steps: tuple[str, ...] = ()
    backend: str = ""

    @property
    def turn(self) -> int:
        """Whose load is begun first: vLLM takes longest to start, and an ensemble is nothing before its steps."""
        if self.steps:
            return 2
        return 0 if self.is_slowest else 1

    @property
    def is_slowest(self) -> bool:
        """Whether its load takes longer than that of any other backend, by far."""
        return self.backend == SLOWEST_BACKEND


@dataclass(frozen=True)
class LoadPlan:
    """The models to load; an ensemble comes after its steps."""

    models: tuple[RepositoryModel, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.models)


def read_models(repositories: Iterable[Path]) -> dict[str, RepositoryModel]:
    """Every model of the repositories, by name. Raises ServingError for a config that cannot be read, or a name that
    two repositories use."""
    models: dict[str, RepositoryModel] = {}
    for repository in repositories:
        if not repository.is_dir():
            raise ServingError(f'"{repository}" is no folder: name a model repository, such as model_repository')
        for file in sorted(repository.glob("*/config.pbtxt")):
            model = _read(file)
            if model.name in models:
                raise ServingError(
                    f'model "{model.name}" is in two repositories: rename one, tritonserver takes neither'
                )
            models[model.name] = model
    if not models:
        folders = ", ".join(f'"{repository}"' for repository in repositories)
        raise ServingError(f"no model in {folders}: ./ladder render writes them")
    return models


def plan_loading(models: Mapping[str, RepositoryModel], wanted: Sequence[str] = ()) -> LoadPlan:
    """All models, or the wanted ones with what they need. Raises ServingError for a name that no model has."""
    for name in wanted:
        if name not in models:
            near = difflib.get_close_matches(name, models, n=1)
            hint = f': did you mean "{near[0]}"?' if near else f": there are {', '.join(sorted(models))}"
            raise ServingError(f'no model "{name}"{hint}')
    ordered: dict[str, RepositoryModel] = {}
    for name in wanted or sorted(models):
        _add(name, models, ordered, ())
    return LoadPlan(tuple(sorted(ordered.values(), key=lambda model: model.turn)))


def _add(
    name: str, models: Mapping[str, RepositoryModel], ordered: dict[str, RepositoryModel], above: tuple[str, ...]
) -> None:
    if name in above:
        raise ServingError(f'ensemble "{name}" contains itself: {" -> ".join([*above, name])}')
    if name not in models:
        raise ServingError(f'ensemble "{above[-1]}" has a step "{name}", which no repository holds')
    for step in models[name].steps:
        _add(step, models, ordered, (*above, name))
    ordered.setdefault(name, models[name])


def _read(file: Path) -> RepositoryModel:
    config = model_config_pb2.ModelConfig()
    try:
        if not file.is_file():
            raise ServingError(f'"{file}" is a folder, a pipe or a device: put a config.pbtxt there')
        text_format.Parse(file.read_text(encoding="utf-8"), config)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise ServingError(f'"{file}" cannot be read: {error}: ./ladder lint {file.parents[1]} says more') from error
    steps = tuple(step.model_name for step in config.ensemble_scheduling.step)
    return RepositoryModel(config.name or file.parent.name, steps, config.backend)
