"""Rules on an ensemble against the models of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.lint.dataflow import stream_origins, trace
from tools.lint.findings import Place, Severity
from tools.lint.mistakes import nearest
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace
from tools.lint.schema import EnsembleStep, Tensor


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of an ensemble together with its model, where that is in a given repository and understood."""

    index: int
    step: EnsembleStep
    model: Model | None
    ensemble: Model

    def at(self, *fields: str | int) -> Place:
        return self.ensemble.at("ensemble_scheduling", 0, "step", self.index, *fields)

    def entry_at(self, key: str, map_name: str) -> Place:
        return self.ensemble.entry_at(key, "ensemble_scheduling", 0, "step", self.index, map_name)

    def __str__(self) -> str:
        return f"step {self.index} ('{self.step.model_name}') of ensemble '{self.ensemble.name}'"


def _steps(ensemble: Model, workspace: Workspace) -> Iterator[_Step]:
    for index, step in enumerate(ensemble.config.ensemble.steps if ensemble.config.ensemble is not None else ()):
        model = workspace.find(step.model_name)
        yield _Step(index, step, model if model is not None and model.is_understood else None, ensemble)


def _streams(model: Model, workspace: Workspace, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a model answers a request with any number of responses; an ensemble does where one of its steps does."""
    ensemble = model.config.ensemble
    if ensemble is None or model.name in seen:
        return model.is_decoupled and ensemble is None
    models = (workspace.find(step.model_name) for step in ensemble.steps)
    return any(_streams(inner, workspace, seen | {model.name}) for inner in models if inner is not None)


@rule(
    "TL907",
    "ensemble-model-missing",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="An ensemble loads only together with the models of all its steps.",
    fix="Correct the name, or pass the repository that holds the model as well.",
)
def ensemble_model_missing(model: Model, workspace: Workspace) -> Iterator[Problem]:
    for step in _steps(model, workspace):
        name = step.step.model_name
        if name and workspace.find(name) is None:
            near = nearest(name, [known.name for known in workspace.models if known.name != model.name])
            fix = f"Did you mean '{near}'?" if near else None
            yield Problem(f"{step} needs model '{name}', which is in no given repository", step.at("model_name"), fix)


@rule(
    "TL908",
    "ensemble-version-missing",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="A step's model_version must be loaded; -1 stands for the newest, and leaving it out for version 0.",
    fix="Write 'model_version: -1', or a version that the model's version_policy loads.",
)
def ensemble_version_missing(model: Model, workspace: Workspace) -> Iterator[Problem]:
    for step in _steps(model, workspace):
        wanted = step.step.model_version
        if step.model is None or wanted == -1:
            continue
        loaded = [version.number for version in step.model.loaded_versions]
        if wanted in loaded:
            continue
        if not model.writes("ensemble_scheduling", 0, "step", step.index, "model_version"):
            yield Problem(f"{step} has no model_version, which means version 0", step.at())
        else:
            listed = ", ".join(map(str, loaded)) or "none"
            yield Problem(f"{step} needs version {wanted}; loaded: {listed}", step.at("model_version"))


@rule(
    "TL909",
    "ensemble-input-unmapped",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="Every required input of a step's model must be mapped.",
    fix="Map it in input_map, or mark it 'optional: true' in the step's model.",
)
def ensemble_input_unmapped(model: Model, workspace: Workspace) -> Iterator[Problem]:
    for step in _steps(model, workspace):
        for tensor in step.model.inputs if step.model is not None and step.step.input_map else ():
            if not tensor.optional and tensor.name not in step.step.input_map:
                yield Problem(f"{step} leaves required input '{tensor.name}' unmapped", step.at())


@rule(
    "TL910",
    "ensemble-tensor-unknown",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="The keys of input_map and output_map are tensors of the step's model.",
    fix="Use the model's own name as key; the ensemble's name is the value.",
)
def ensemble_tensor_unknown(model: Model, workspace: Workspace) -> Iterator[Problem]:
    for step in _steps(model, workspace):
        if step.model is None:
            continue
        sides = (
            ("input", step.step.input_map, step.model.inputs),
            ("output", step.step.output_map, step.model.outputs),
        )
        for side, mapping, tensors in sides:
            names = [tensor.name for tensor in tensors]
            for key in mapping if names else ():
                if key not in names:
                    near = nearest(key, names)
                    fix = f"Did you mean '{near}'?" if near else None
                    message = f"{step} maps {side} '{key}', which the model does not have"
                    yield Problem(message, step.entry_at(key, f"{side}_map"), fix)


@dataclass(frozen=True, slots=True)
class _Use:
    """One mention of an ensemble tensor with the type and shape it has there."""

    tensor: Tensor
    dims: tuple[int, ...]
    batched: bool
    owner: str
    place: Place

    @property
    def full_dims(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batched else self.dims


def _uses(model: Model, workspace: Workspace) -> Iterator[tuple[str, _Use]]:
    """Every mention of every tensor, in the server's order: the ensemble's own first, then step by step."""
    config = model.config
    for field, tensors in (("input", config.inputs), ("output", config.outputs)):
        for index, tensor in enumerate(tensors):
            owner = f"ensemble '{model.name}'"
            yield (
                tensor.name,
                _Use(tensor, tensor.model_side_dims, config.max_batch_size > 0, owner, model.at(field, index)),
            )
    for step in _steps(model, workspace):
        if step.model is None:
            continue
        batched = step.model.config.max_batch_size > 0
        sides = (
            ("input_map", step.step.input_map, step.model.inputs),
            ("output_map", step.step.output_map, step.model.outputs),
        )
        for field, mapping, known in sides:
            by_name = {tensor.name: tensor for tensor in known}
            for key, name in mapping.items():
                if key in by_name:
                    tensor = by_name[key]
                    yield (
                        name,
                        _Use(tensor, tensor.dims, batched, f"'{step.step.model_name}'", step.entry_at(key, field)),
                    )


@rule(
    "TL911",
    "ensemble-data-type",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="A tensor has one data type on its way through an ensemble; nothing converts between steps.",
    fix="Give both ends the same data_type.",
)
def ensemble_data_type(model: Model, workspace: Workspace) -> Iterator[Problem]:
    first: dict[str, _Use] = {}
    for name, use in _uses(model, workspace):
        known = first.setdefault(name, use)
        if (
            "TYPE_INVALID" not in {known.tensor.data_type, use.tensor.data_type}
            and known.tensor.data_type != use.tensor.data_type
        ):
            ends = f"{known.tensor.data_type} in {known.owner} and {use.tensor.data_type} in {use.owner}"
            yield Problem(f"tensor '{name}' of ensemble '{model.name}' is {ends}", use.place)


@rule(
    "TL912",
    "ensemble-shape",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="Shapes must agree on both ends of a tensor: -1 agrees with any size, a batch dimension counts as one more.",
    fix="Give both ends the same dims, -1 where the size varies.",
)
def ensemble_shape(model: Model, workspace: Workspace) -> Iterator[Problem]:
    first: dict[str, _Use] = {}
    for name, use in _uses(model, workspace):
        known = first.setdefault(name, use)
        if not known.dims or not use.dims:
            continue
        if not _agree(known.dims, use.dims) and not _agree(known.full_dims, use.full_dims):
            ends = f"{list(known.full_dims)} in {known.owner} and {list(use.full_dims)} in {use.owner}"
            yield Problem(f"tensor '{name}' of ensemble '{model.name}' has shape {ends}", use.place)


def _agree(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return len(left) == len(right) and all(a == b or -1 in {a, b} for a, b in zip(left, right, strict=True))


@rule(
    "TL913",
    "ensemble-decoupled-origin",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="What a step reads, and what the ensemble returns, must come from one stream: nothing pairs a stream's many "
    "responses with a tensor that is there once.",
    fix="Let the streaming step hand on what is needed, or leave the other tensor out.",
)
def ensemble_decoupled_origin(model: Model, workspace: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.ensemble is None:
        return
    steps = list(_steps(model, workspace))
    streaming = {step.index for step in steps if step.model is not None and _streams(step.model, workspace)}
    origins = stream_origins(config, config.ensemble, streaming.__contains__)

    def mixed(names: list[str]) -> str | None:
        sources = {name: origins[name] for name in names if name in origins}
        if len(set(sources.values())) < 2:
            return None
        streamed = next(name for name, origin in sources.items() if origin is not None)
        other = next(name for name, origin in sources.items() if origin != sources[streamed])
        index = origins[streamed]
        writer = config.ensemble.steps[index].model_name if config.ensemble is not None and index is not None else ""
        return f"'{streamed}' out of the stream of '{writer}' with '{other}', which is not part of it"

    for step in steps:
        pair = mixed(list(step.step.input_map.values()))
        if pair is not None:
            yield Problem(f"{step} mixes {pair}", step.at("input_map"))
    pair = mixed([tensor.name for tensor in config.outputs])
    if pair is not None:
        yield Problem(f"ensemble '{model.name}' returns {pair}", model.at("output"))


@rule(
    "TL914",
    "ensemble-batch-size",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="An ensemble may not allow larger batches than its steps; a step without batch dimension takes any.",
    fix="Lower the ensemble's max_batch_size.",
)
def ensemble_batch_size(model: Model, workspace: Workspace) -> Iterator[Problem]:
    size = model.config.max_batch_size
    for step in _steps(model, workspace):
        limit = step.model.config.max_batch_size if step.model is not None else 0
        if 0 < limit < size:
            yield Problem(
                f"ensemble '{model.name}' has max_batch_size {size}, {step} only {limit}", model.at("max_batch_size")
            )


@rule(
    "TL915",
    "ensemble-cycle",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="An ensemble cannot be a step of itself, not through other ensembles either.",
    fix="Break the circle.",
)
def ensemble_cycle(model: Model, workspace: Workspace) -> Iterator[Problem]:
    path = _way_back(model, model, workspace, (model.name,))
    if path is not None:
        yield Problem(
            f"ensemble '{model.name}' depends on itself: {' -> '.join(path)}", model.at("ensemble_scheduling")
        )


def _way_back(start: Model, current: Model, workspace: Workspace, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The chain of steps that leads from `current` back to `start`."""
    for step in current.config.ensemble.steps if current.config.ensemble is not None else ():
        if step.model_name == start.name:
            return (*path, start.name)
        following = workspace.find(step.model_name)
        if following is not None and following.name not in path:
            found = _way_back(start, following, workspace, (*path, following.name))
            if found is not None:
                return found
    return None


@rule(
    "TL916",
    "ensemble-back-pressure",
    Scope.ENSEMBLE,
    Severity.NOTE,
    reason="A step behind a streaming one may be slower than the stream: responses pile up in memory without a bound.",
    fix="Set 'max_inflight_requests' in ensemble_scheduling (newer than tritonserver 2.51, which refuses the field).",
)
def ensemble_back_pressure(model: Model, workspace: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.ensemble is None or config.ensemble.max_inflight_requests:
        return
    flow = trace(config, config.ensemble)
    for step in _steps(model, workspace):
        if step.model is None or not _streams(step.model, workspace):
            continue
        readers = {reader for name in step.step.output_map.values() for reader in flow.readers.get(name, ())}
        if readers:
            name = config.ensemble.steps[min(readers)].model_name
            stream = f"the stream of '{step.step.model_name}'"
            message = f"'{name}' follows {stream} in ensemble '{model.name}', with no bound between"
            yield Problem(message, model.at("ensemble_scheduling"))


@rule(
    "TL917",
    "ensemble-optional-input",
    Scope.ENSEMBLE,
    Severity.WARNING,
    reason="A request may leave out an optional input, and a step that requires it then fails.",
    fix="Make the ensemble's input required, or the step's optional.",
)
def ensemble_optional_input(model: Model, workspace: Workspace) -> Iterator[Problem]:
    optional = {tensor.name for tensor in model.config.inputs if tensor.optional}
    for step in _steps(model, workspace):
        required = (
            {tensor.name for tensor in step.model.inputs if not tensor.optional} if step.model is not None else set()
        )
        for key, name in step.step.input_map.items():
            if name in optional and key in required:
                message = f"optional input '{name}' of ensemble '{model.name}' goes to required input '{key}' of {step}"
                yield Problem(message, step.entry_at(key, "input_map"))


@rule(
    "TL918",
    "ensemble-unbatched-step",
    Scope.ENSEMBLE,
    Severity.WARNING,
    reason="A step without batch dimension gets a batch of one without it, and refuses any larger batch.",
    fix="Give the ensemble max_batch_size 0, or the step a batch dimension.",
)
def ensemble_unbatched_step(model: Model, workspace: Workspace) -> Iterator[Problem]:
    size = model.config.max_batch_size
    if size < 2:
        return
    own = {tensor.name: (-1, *tensor.model_side_dims) for tensor in model.config.inputs}
    for step in _steps(model, workspace):
        if step.model is None or step.model.config.max_batch_size != 0:
            continue
        dims = {tensor.name: tensor.dims for tensor in step.model.inputs}
        for key, name in step.step.input_map.items():
            if name in own and key in dims and not _agree(own[name], dims[key]):
                message = (
                    f"ensemble '{model.name}' has max_batch_size {size}, input '{key}' of {step} no batch dimension"
                )
                yield Problem(message, step.entry_at(key, "input_map"))
