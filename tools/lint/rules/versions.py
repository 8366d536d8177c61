"""Rules on version folders and the policy that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator

from tools.lint.backends import expected_model_file
from tools.lint.findings import Place, Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Version, Workspace


@rule(
    "TL301",
    "no-version",
    Scope.MODEL,
    Severity.ERROR,
    reason="A model needs a numeric version folder, an ensemble an empty one too; git does not keep empty folders.",
    fix="Create the folder '1'; for an ensemble put a .gitkeep inside.",
)
def no_version(model: Model, _: Workspace) -> Iterator[Problem]:
    if not any(version.number is not None for version in model.versions):
        yield Problem(f"model '{model.name}' has no version folder", Place(model.path))


@rule(
    "TL302",
    "version-leading-zero",
    Scope.MODEL,
    Severity.WARNING,
    reason="Triton ignores version folders whose names start with a zero.",
    fix="Rename it to the plain number.",
)
def version_leading_zero(model: Model, _: Workspace) -> Iterator[Problem]:
    for version in model.versions:
        if version.number is None and version.name.isdecimal():
            yield Problem(
                f"version folder '{version.name}' of '{model.name}' starts with a zero and is ignored",
                Place(version.path),
            )


@rule(
    "TL303",
    "version-not-numeric",
    Scope.MODEL,
    Severity.NOTE,
    reason="Triton takes every folder beside config.pbtxt for a version and ignores those that are no number.",
    fix="Nothing, if it is no version; otherwise name it by its number.",
)
def version_not_numeric(model: Model, _: Workspace) -> Iterator[Problem]:
    for version in model.versions:
        hidden = version.name.startswith((".", "__"))
        if version.number is None and not hidden and not version.name.isdecimal():
            yield Problem(
                f"folder '{version.name}' of '{model.name}' is no version and is ignored", Place(version.path)
            )


@rule(
    "TL304",
    "version-suffix",
    Scope.MODEL,
    Severity.ERROR,
    reason="Triton reads '2-old' as version 2, then looks for its files in a folder '2'.",
    fix="Move the folder out of the model's folder, or give it a name that does not start with a digit.",
)
def version_suffix(model: Model, _: Workspace) -> Iterator[Problem]:
    exact = {version.number for version in model.exact_versions}
    for version in model.versions:
        if version.number is not None and not version.is_exact and version.number not in exact:
            message = f"folder '{version.name}' of '{model.name}' is taken for version {version.number}"
            yield Problem(f"{message}, but folder '{version.number}' does not exist", Place(version.path))


@rule(
    "TL305",
    "policy-names-missing-version",
    Scope.MODEL,
    Severity.ERROR,
    reason="A version that the policy names but that is not there is only logged, and silently not served.",
    fix="Add the version's folder or take it out of the policy.",
)
def policy_names_missing_version(model: Model, _: Workspace) -> Iterator[Problem]:
    policy = model.config.version_policy
    if policy is None or policy.kind != "specific":
        return
    existing = {version.number for version in model.versions}
    for number in policy.versions:
        if number not in existing:
            message = f"version_policy of '{model.name}' names version {number}, which has no folder"
            yield Problem(message, model.at("version_policy", "specific", "versions"))


@rule(
    "TL306",
    "policy-drops-versions",
    Scope.MODEL,
    Severity.WARNING,
    reason="Without a version_policy Triton serves only the newest version, and sends it all unversioned traffic.",
    fix="Write 'version_policy { all { } }', or 'latest { num_versions: 1 }' to say that it is meant.",
)
def policy_drops_versions(model: Model, _: Workspace) -> Iterator[Problem]:
    dropped = [version for version in model.exact_versions if version not in model.loaded_versions]
    if model.config.version_policy is None and model.is_understood and dropped:
        names = ", ".join(version.name for version in sorted(dropped, key=lambda version: version.number or 0))
        kept = model.loaded_versions[-1].name
        yield Problem(f"'{model.name}' has no version_policy: version {kept} is served, {names} never", model.at())


@rule(
    "TL307",
    "model-file-missing",
    Scope.MODEL,
    Severity.ERROR,
    reason="The version cannot load; a Python model without its file even keeps tritonserver 2.51 waiting at start.",
    fix="Add the file, or name the right one in default_model_filename.",
)
def model_file_missing(model: Model, _: Workspace) -> Iterator[Problem]:
    if not model.is_understood or model.config.is_ensemble:
        return
    expected = expected_model_file(model.backend, model.config)
    for version in model.loaded_versions:
        if expected is not None and not _has_file(version, expected):
            message = (
                f"'{model.name}' version {version.name} has no '{expected}', which backend '{model.backend}' loads"
            )
            yield Problem(message, Place(version.path))


def _has_file(version: Version, name: str) -> bool:
    """default_model_filename may lead into a subfolder, of which only the first part is known here."""
    return name.split("/")[0] in version.files


@rule(
    "TL308",
    "policy-loads-nothing",
    Scope.MODEL,
    Severity.ERROR,
    reason="A policy that selects no version leaves nothing to load.",
    fix="Set num_versions to 1 or more, or name versions that exist.",
)
def policy_loads_nothing(model: Model, _: Workspace) -> Iterator[Problem]:
    policy = model.config.version_policy
    if policy is not None and model.exact_versions and not model.loaded_versions:
        described = "'latest' with num_versions 0" if policy.kind == "latest" else f"'{policy.kind}'"
        yield Problem(f"version_policy {described} of '{model.name}' selects no version", model.at("version_policy"))
