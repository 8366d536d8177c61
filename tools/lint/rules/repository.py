"""Rules on folders and files: what the server finds when it polls a repository."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.lint.config_file import Placeholder, find_placeholder
from tools.lint.findings import Place, Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Repository, Workspace


@rule(
    "TL101",
    "directory-name",
    Scope.MODEL,
    Severity.ERROR,
    reason="Triton refuses a model whose folder and 'name' differ.",
    fix="Rename the folder or the model, or leave 'name' out: it defaults to the folder's name.",
)
def directory_name(model: Model, _: Workspace) -> Iterator[Problem]:
    files = [model.config_file, *model.alternatives]
    for file in files:
        name = file.config.name if file is not None and file.config is not None else ""
        if file is not None and name and name != model.name:
            yield Problem(f"model '{name}' lies in folder '{model.name}'", file.at("name"))


@rule(
    "TL102",
    "config-missing",
    Scope.MODEL,
    Severity.ERROR,
    reason="Without config.pbtxt the server cannot tell which backend loads the model.",
    fix="Write a config.pbtxt that names the backend, the inputs and the outputs.",
)
def config_missing(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.config_file is None and model.is_understood and model.backend is None:
        yield Problem(
            f"model '{model.name}' has no config.pbtxt, and its files do not tell the backend", Place(model.path)
        )


@rule(
    "TL103",
    "config-left-to-auto-complete",
    Scope.MODEL,
    Severity.NOTE,
    reason="A model without config.pbtxt loads only while the server may complete configurations itself.",
    fix="Write a config.pbtxt, or never start the server with --disable-auto-complete-config.",
)
def config_left_to_auto_complete(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.config_file is None and model.is_understood and model.backend is not None:
        yield Problem(
            f"model '{model.name}' has no config.pbtxt and leaves it to backend '{model.backend}'", Place(model.path)
        )


@rule(
    "TL104",
    "not-a-model",
    Scope.REPOSITORY,
    Severity.WARNING,
    reason="Triton polls every folder of a repository, hidden ones too; one that is no model is an error at start.",
    fix="Move the folder out of the repository.",
)
def not_a_model(repository: Repository, _: Workspace) -> Iterator[Problem]:
    for stray in repository.strays:
        yield Problem(f"folder '{stray.name}' holds neither config.pbtxt nor a version folder", Place(stray))


@rule(
    "TL105",
    "model-name-twice",
    Scope.WORKSPACE,
    Severity.ERROR,
    reason="A model name must be unique across all repositories of a server; Triton loads neither of two.",
    fix="Rename one of them, or do not load both repositories into one server.",
)
def model_name_twice(workspace: Workspace) -> Iterator[Problem]:
    places: dict[str, list[Model]] = defaultdict(list)
    for model in workspace.models:
        if all(model.path.resolve() != known.path.resolve() for known in places[model.name]):
            places[model.name].append(model)
    for name, models in places.items():
        for model in models[1:]:
            yield Problem(f"model '{name}' is also in '{models[0].path}'", Place(model.path))


@rule(
    "TL106",
    "unreadable",
    Scope.REPOSITORY,
    Severity.ERROR,
    reason="What cannot be read cannot be loaded, nor checked here.",
    fix="Replace the file, or give the server's user the right to read it.",
)
def unreadable(repository: Repository, _: Workspace) -> Iterator[Problem]:
    for entry in [*repository.unreadable, *(entry for model in repository.models for entry in model.unreadable)]:
        if not entry.is_link:
            yield Problem(f"'{entry.path.name}' cannot be read: {entry.reason}", Place(entry.path))


@rule(
    "TL107",
    "broken-link",
    Scope.REPOSITORY,
    Severity.ERROR,
    reason="One dangling link in a repository keeps Triton from loading any of it; in a model's folder, that model.",
    fix="Remove the link or create what it points to.",
)
def broken_link(repository: Repository, _: Workspace) -> Iterator[Problem]:
    for entry in [*repository.unreadable, *(entry for model in repository.models for entry in model.unreadable)]:
        if entry.is_link:
            yield Problem(f"'{entry.path.name}' leads nowhere: {entry.reason}", Place(entry.path))


@rule(
    "TL108",
    "unrendered-placeholder",
    Scope.MODEL,
    Severity.ERROR,
    reason="A template placeholder that was left in is taken literally, or breaks the file.",
    fix="Render the template before Triton reads the file, with undefined variables as errors.",
)
def unrendered_placeholder(model: Model, _: Workspace) -> Iterator[Problem]:
    for file in [model.config_file, *model.alternatives]:
        for found in file.placeholders if file is not None else ():
            place = Place(file.path if file is not None else model.path, found.line, found.column)
            yield Problem(_left_in(found.text, found.field, found.placeholder), place, severity=_severity(model, found))
    for version in model.versions:
        for document in (version.engine_arguments, version.lora_names):
            for path, value in document.strings() if document is not None else ():
                placeholder = find_placeholder(value)
                if placeholder is not None and document is not None:
                    key = next((str(part) for part in reversed(path) if isinstance(part, str)), "")
                    yield Problem(_left_in(f'"{value}"', key, placeholder), document.at(*path))


def _left_in(text: str, field: str, placeholder: str) -> str:
    return f"{text} in '{field}' still holds the template placeholder '{placeholder}'"


def _severity(model: Model, found: Placeholder) -> Severity | None:
    """Only the backend reads parameters: a warning; a note for TensorRT-LLM, to which '${x}' means unset."""
    if not found.is_parameter:
        return None
    return Severity.NOTE if model.backend == "tensorrtllm" else Severity.WARNING


@rule(
    "TL109",
    "config-misplaced",
    Scope.MODEL,
    Severity.WARNING,
    reason="Triton reads config.pbtxt in the model's folder only.",
    fix="Move it up beside the version folders; one config.pbtxt serves all versions.",
)
def config_misplaced(model: Model, _: Workspace) -> Iterator[Problem]:
    for version in model.versions:
        if "config.pbtxt" in version.files:
            message = f"config.pbtxt lies in version folder '{version.name}' of '{model.name}', where it is never read"
            yield Problem(message, Place(version.path / "config.pbtxt"))
