"""Rules on the release router: its release file, and the targets that the file names."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.backends import PYTHON, VLLM
from tools.lint.findings import Place, Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.release_document import PARAMETER
from tools.lint.repository import Model, Workspace
from tools.spec.release import ReleaseTarget


@rule(
    "TL930",
    "router-transaction-policy",
    Scope.MODEL,
    Severity.ERROR,
    reason="A router streams answers and hands on requests one by one: it is decoupled and has no batch dimension.",
    fix="Write 'model_transaction_policy { decoupled: true }' and 'max_batch_size: 0'.",
)
def router_transaction_policy(model: Model, _: Workspace) -> Iterator[Problem]:
    if model.release is None:
        return
    if not model.is_decoupled:
        yield Problem(f"router '{model.name}' is not decoupled", model.at("model_transaction_policy"))
    if model.config.max_batch_size:
        message = f"router '{model.name}' has max_batch_size {model.config.max_batch_size}"
        yield Problem(message, model.at("max_batch_size"))


@rule(
    "TL931",
    "release-file-broken",
    Scope.MODEL,
    Severity.ERROR,
    reason="A router does not load without a release file that it understands.",
    fix="Mend the file as the message says, or render it anew: ./ladder render.",
)
def release_file_broken(model: Model, _: Workspace) -> Iterator[Problem]:
    document = model.release
    if document is None:
        return
    if document.text is None:
        message = f"router '{model.name}' names the release file '{document.path.name}', which cannot be read"
        yield Problem(message, model.entry_at(PARAMETER, "parameters"))
    for problem in document.problems:
        message = f"release file '{document.path.name}' of '{model.name}': {problem.message}"
        yield Problem(message, Place(document.path, problem.line))


@rule(
    "TL932",
    "release-target",
    Scope.MODEL,
    Severity.ERROR,
    reason="A router reaches engines by their sockets: a target is a loaded version of a model that has an engine.",
    fix="Name another target in the release file, or add the version to the model's folder and version_policy.",
)
def release_target(model: Model, workspace: Workspace) -> Iterator[Problem]:
    document = model.release
    if document is None or document.release is None:
        return
    for target in document.release.targets().values():
        if reason := _unreachable(target, workspace):
            yield Problem(f"the release of '{model.name}' names '{target.name}': {reason}", document.at(target))


def _unreachable(target: ReleaseTarget, workspace: Workspace) -> str:
    model = workspace.find(target.model)
    if model is None:
        return f"no repository holds '{target.model}'"
    if not model.is_understood:
        return ""
    if model.config.ensemble is not None or model.backend not in (VLLM, PYTHON) or model.release is not None:
        return f"'{target.model}' has no engine of its own"
    loaded = [version.number for version in model.loaded_versions]
    if target.version not in loaded:
        return f"of '{target.model}' the server loads {', '.join(map(str, loaded)) or 'no version'}"
    return ""
