"""The release file: YAML text <-> `Release`, reading and writing it whole, and compiling it for the router's stub.

The router watches two files. The start state is rendered beside the config of `chat` and committed; the running state
lies under .ladder/, belongs to one instance, and wins as soon as it exists. Whoever changes a release reads the one in
force, changes the value, and writes the running state:

    release = read_release(source)
    write_release(running, with_weights(release, "default", {"llm_bf16:1": 99.0, "llm_awq:1": 1.0}))
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tools.bootstrap.layout import Layout
from tools.bootstrap.whole_file import write_durably
from tools.spec.document import Document, DocumentError, document_text
from tools.spec.release import Condition, Release, ReleaseTarget, Route, Scalar, WeightedTarget, tenths
from tools.wire import release as wire

from .errors import ReleaseFileError

FILE_NAME: Final = "release.yaml"


def parse_release(text: str, source: str) -> Release:
    """The release in `text`; `source` is the file's name for error texts. Raises ReleaseFileError."""
    try:
        return Document(text, source, "release file").check(Release)
    except DocumentError as error:
        raise ReleaseFileError(str(error)) from None


def read_release(path: Path) -> Release:
    """The release in the file. Raises ReleaseFileError, also when there is no file."""
    try:
        text = document_text(path, "release", "./ladder render writes the one that a profile starts with")
    except DocumentError as error:
        raise ReleaseFileError(str(error)) from None
    return parse_release(text, str(path))


def release_yaml(release: Release) -> str:
    """The release as YAML; parsing it gives an equal one."""
    document = release.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def write_release(path: Path, release: Release) -> None:
    """Write the file whole, by rename: a reader sees the old release or the new one. Raises ReleaseFileError."""
    try:
        write_durably(path, release_yaml(release))
    except OSError as error:
        raise ReleaseFileError(f'cannot write "{path}": {error.strerror or error}') from error


def running_file(layout: Layout, port_base: int, profile: str, repositories: Sequence[str]) -> Path:
    """The running state of what an instance serves at a port base: of `profile`, or of `repositories` without one.

    It stays when the instance ends, so that a release goes on where it was; other repositories have another.
    """
    served = profile or "repositories-" + hashlib.blake2b("\n".join(repositories).encode(), digest_size=4).hexdigest()
    return layout.private / "release" / str(port_base) / served / FILE_NAME


def with_weights(release: Release, route: str, weights: Mapping[str, float]) -> Release:
    """`release` with these weights, percent by MODEL:VERSION, in one route; others there get 0, new ones come last.

    Raises KeyError for an unknown route and pydantic.ValidationError for weights that do not add up to 100 %.
    """
    changed = release.route(route)
    known = {target.name: target for target in changed.targets}
    targets: list[dict[str, Any]] = [
        {**target.model_dump(), "weight": float(weights.get(name, 0.0))} for name, target in known.items()
    ]
    for name in weights:
        if name not in known:
            model, _, version = name.rpartition(":")
            targets.append({"model": model, "version": int(version), "weight": float(weights[name])})
    route_fields = {**changed.model_dump(), "targets": targets}
    routes = [route_fields if other.name == route else other.model_dump() for other in release.routes]
    return Release.model_validate({"routes": routes})


def compile_release(release: Release) -> wire.Release:
    """The release as the router's stub chooses by it."""
    return wire.Release([_route(route) for route in release.routes])


def _route(route: Route) -> wire.Route:
    bounds = {target.name: target.max_in_flight or 0 for target in route.targets}
    shadow = route.shadow
    return wire.Route(
        name=route.name,
        targets=[_target(target, bounds, tenths(target.weight)) for target in route.targets],
        fallback=[_target(target, bounds) for target in route.fallback_targets],
        condition=None if route.when is None else _condition(route.when),
        sticky=route.sticky or "",
        shadow=None
        if shadow is None
        else wire.Shadow(shadow.model, shadow.version, tenths(shadow.share), shadow.max_in_flight),
    )


def _target(target: ReleaseTarget | WeightedTarget, bounds: Mapping[str, int], weight: int = 0) -> wire.Target:
    return wire.Target(target.model, target.version, weight, bounds.get(target.name, 0))


def _condition(condition: Condition) -> wire.Condition:
    parameters = {name: _texts(values) for name, values in condition.parameters.items()}
    if condition.user is not None:
        parameters["user"] = _texts(condition.user)
    tokens = condition.prompt_tokens
    return wire.Condition(
        parameters=parameters,
        headers={name.lower(): _texts(values) for name, values in condition.headers.items()},
        over=-1 if tokens is None or tokens.over is None else tokens.over,
        under=0 if tokens is None or tokens.under is None else tokens.under,
    )


def _texts(values: Iterable[Scalar]) -> list[str]:
    return [wire.parameter_text(value) for value in values]
