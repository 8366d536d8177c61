"""Rules on an ensemble by itself: its form, and tensors that come from nowhere or go nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.dataflow import trace
from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace


@rule(
    "TL901",
    "ensemble-platform",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason='An ensemble has platform "ensemble", ensemble_scheduling and no backend.',
    fix="Write 'platform: \"ensemble\"', remove 'backend', and list the steps in ensemble_scheduling.",
)
def ensemble_platform(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.backend:
        yield Problem(f"ensemble '{model.name}' has backend '{config.backend}'", model.at("backend"))
    if config.platform != "ensemble":
        yield Problem(
            f"'{model.name}' has ensemble_scheduling, but platform is '{config.platform}'", model.at("platform")
        )
    if config.ensemble is None:
        yield Problem(f"ensemble '{model.name}' has no ensemble_scheduling", model.at("platform"))


@rule(
    "TL902",
    "ensemble-forbidden-field",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="An ensemble runs nothing itself: Triton refuses instance_group, optimization and model_warmup in it.",
    fix="Move the field to the step's model.",
)
def ensemble_forbidden_field(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    present = {
        "instance_group": bool(config.instance_groups),
        "optimization": config.optimization,
        "model_warmup": config.warmup_samples > 0,
    }
    for field, is_set in present.items():
        if is_set:
            yield Problem(f"ensemble '{model.name}' has '{field}'", model.at(field))


@rule(
    "TL903",
    "ensemble-step-incomplete",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="An ensemble needs at least one step, and every step a model_name, an input_map and an output_map.",
    fix="Complete the step or remove it.",
)
def ensemble_step_incomplete(model: Model, _: Workspace) -> Iterator[Problem]:
    ensemble = model.config.ensemble
    if ensemble is None:
        return
    if not ensemble.steps:
        yield Problem(f"ensemble '{model.name}' has no step", model.at("ensemble_scheduling"))
    for index, step in enumerate(ensemble.steps):
        present = {"model_name": step.model_name, "input_map": step.input_map, "output_map": step.output_map}
        for field, value in present.items():
            if not value:
                message = f"step {index} ('{step.model_name}') of ensemble '{model.name}' has no {field}"
                yield Problem(message, model.at("ensemble_scheduling", 0, "step", index))


@rule(
    "TL904",
    "ensemble-tensor-unused",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="Triton refuses an ensemble with a tensor that nothing reads; a step's output may stay unmapped instead.",
    fix="Remove the mapping, or make the tensor an output of the ensemble.",
)
def ensemble_tensor_unused(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.ensemble is None or not config.ensemble.steps:
        return
    flow = trace(config, config.ensemble)
    outputs = {tensor.name for tensor in config.outputs}
    for index, tensor in enumerate(config.inputs):
        if tensor.name not in flow.readers:
            yield Problem(f"input '{tensor.name}' of ensemble '{model.name}' goes to no step", model.at("input", index))
    for name, writers in flow.writers.items():
        if name not in flow.readers and name not in outputs:
            step = config.ensemble.steps[writers[0]]
            message = f"tensor '{name}' of ensemble '{model.name}', written by '{step.model_name}', is read by nothing"
            yield Problem(message, model.at("ensemble_scheduling", 0, "step", writers[0], "output_map"))


@rule(
    "TL905",
    "ensemble-tensor-unwritten",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="Every tensor that a step reads or the ensemble returns must come from the request or from another step.",
    fix="Map a step's output to it, or make it an input of the ensemble.",
)
def ensemble_tensor_unwritten(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.ensemble is None or not config.ensemble.steps:
        return
    flow = trace(config, config.ensemble)
    inputs = {tensor.name for tensor in config.inputs}
    for index, output in enumerate(config.outputs):
        if output.name not in flow.writers and output.name not in inputs:
            yield Problem(
                f"output '{output.name}' of ensemble '{model.name}' is written by no step", model.at("output", index)
            )
    for name in sorted(flow.missing):
        reader = flow.readers[name][0]
        what = f"step '{config.ensemble.steps[reader].model_name}' of ensemble '{model.name}'"
        place = model.at("ensemble_scheduling", 0, "step", reader, "input_map")
        yield Problem(f"{what} reads tensor '{name}', which nothing writes", place)
    runnable = trace(config, config.ensemble, flow.missing).order
    stuck = [index for index in range(len(config.ensemble.steps)) if index not in runnable]
    if stuck:
        names = ", ".join(f"'{config.ensemble.steps[index].model_name}'" for index in stuck)
        what = f"steps {names} of ensemble '{model.name}' wait for each other's tensors"
        message = what if len(stuck) > 1 else f"step {names} of ensemble '{model.name}' waits for its own output"
        yield Problem(message, model.at("ensemble_scheduling", 0, "step", stuck[0], "input_map"))


@rule(
    "TL906",
    "ensemble-tensor-written-twice",
    Scope.ENSEMBLE,
    Severity.ERROR,
    reason="A tensor of an ensemble has one source: it may appear in one output_map only.",
    fix="Give each step's output a tensor name of its own.",
)
def ensemble_tensor_written_twice(model: Model, _: Workspace) -> Iterator[Problem]:
    config = model.config
    if config.ensemble is None:
        return
    inputs = {tensor.name for tensor in config.inputs}
    for name, writers in trace(config, config.ensemble).writers.items():
        sources = [f"step '{config.ensemble.steps[index].model_name}'" for index in writers]
        what = f"tensor '{name}' of ensemble '{model.name}' is written by"
        place = model.at("ensemble_scheduling", 0, "step", writers[-1], "output_map")
        if len(sources) > 1:
            yield Problem(f"{what} {' and '.join(sources)}", place)
        elif name in inputs:  # the server loads this one, and later steps may see either
            yield Problem(f"{what} the request and {sources[0]}", place, severity=Severity.WARNING)
