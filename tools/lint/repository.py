"""Reads model repositories into plain values. The only place in the lint, beside artifacts.py, that touches files."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.lint import backends
from tools.lint.artifacts import Artifact, find_artifact
from tools.lint.config_file import ConfigFile, parse_config
from tools.lint.findings import LintInputError, Place
from tools.lint.json_document import JsonDocument, parse_json
from tools.lint.manifests import Manifest, find_manifests, read_manifest
from tools.lint.release_document import PARAMETER, ReleaseDocument, parse_release_document
from tools.lint.schema import ModelConfig, Tensor, VersionPolicy
from tools.lint.vllm_arguments import EngineArguments

_MOST_BYTES = 4 * 2**20
_NOT_VERSIONS = {"warmup", "initial_state", "configs", "config.pbtxt"}
"""Folders beside the versions that have a meaning of their own to the server."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that is there but cannot be read, and why. `is_link` for a symbolic link that leads nowhere."""

    path: Path
    reason: str
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """A folder below a model. `number` is what the server reads in its name, None where it ignores the folder."""

    path: Path
    number: int | None
    files: frozenset[str] = frozenset()
    engine_arguments: JsonDocument | None = None
    lora_names: JsonDocument | None = None
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    """Local model folders by the name that model.json gives them."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_exact(self) -> bool:
        """True where the folder's name is the number and nothing else: only then does the server find its files."""
        return self.number is not None and self.name == str(self.number)


@dataclass(frozen=True, slots=True)
class Model:
    """A model's folder. `alternatives` are the files that --model-config-name can put in config.pbtxt's place.

    `release` is the release file that a router's config names; None for every other model.
    """

    path: Path
    name: str
    config_file: ConfigFile | None = None
    versions: tuple[Version, ...] = ()
    alternatives: tuple[ConfigFile, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    release: ReleaseDocument | None = None

    @property
    def config(self) -> ModelConfig:
        """The configuration; all defaults where there is none or it cannot be parsed."""
        parsed = None if self.config_file is None else self.config_file.config
        return parsed or ModelConfig()

    @property
    def is_understood(self) -> bool:
        """False where config.pbtxt is there but nothing can be said about what it means."""
        broken = self.config_file is not None and self.config_file.config is None
        return not broken and not any(entry.path.name == "config.pbtxt" for entry in self.unreadable)

    @property
    def backend(self) -> str | None:
        files = frozenset(name for version in self.exact_versions for name in version.files)
        parsed = None if self.config_file is None else self.config_file.config
        return backends.effective_backend(parsed, self.name, files)

    @property
    def is_vllm(self) -> bool:
        return self.backend == backends.VLLM

    @property
    def exact_versions(self) -> tuple[Version, ...]:
        return tuple(version for version in self.versions if version.is_exact)

    @property
    def loaded_versions(self) -> tuple[Version, ...]:
        """The versions that the version policy loads, lowest first."""
        existing = sorted(self.exact_versions, key=lambda version: version.number or 0)
        policy = self.config.version_policy or VersionPolicy("latest", num_versions=1)
        match policy.kind:
            case "all":
                return tuple(existing)
            case "latest":
                return tuple(existing[len(existing) - policy.num_versions :]) if policy.num_versions else ()
            case "specific":
                return tuple(version for version in existing if version.number in policy.versions)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs as served: for vLLM with those that the backend adds to the config."""
        contract = backends.VLLM_CONTRACT.inputs if self.is_vllm else ()
        return _completed(self.config.inputs, contract)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        contract = backends.VLLM_CONTRACT.outputs if self.is_vllm else ()
        return _completed(self.config.outputs, contract)

    @property
    def is_decoupled(self) -> bool:
        """As written; vLLM's backend makes itself decoupled where nothing is written."""
        return self.is_vllm if self.config.decoupled is None else self.config.decoupled

    def at(self, *fields: str | int) -> Place:
        """Where a field of config.pbtxt stands."""
        return Place(self.path) if self.config_file is None else self.config_file.at(*fields)

    def entry_at(self, key: str, *fields: str | int) -> Place:
        """Where an entry of a map in config.pbtxt stands."""
        return Place(self.path) if self.config_file is None else self.config_file.entry_at(key, *fields)

    def writes(self, *fields: str | int) -> bool:
        return self.config_file is not None and self.config_file.writes(*fields)


def _completed(written: Sequence[Tensor], contract: Sequence[Tensor]) -> tuple[Tensor, ...]:
    names = {tensor.name for tensor in written}
    return (*written, *(tensor for tensor in contract if tensor.name not in names))


@dataclass(frozen=True, slots=True)
class Repository:
    path: Path
    models: tuple[Model, ...] = ()
    strays: tuple[Path, ...] = ()
    """Folders that the server takes for models, but that hold nothing of one."""
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    """Everything one lint run looks at: the repositories loaded into one server, and what is known beside them."""

    repositories: tuple[Repository, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    engine_arguments: EngineArguments | None = None
    gpus: int | None = None
    """NVIDIA GPUs of the machine that lints; None where nobody asked."""

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(model for repository in self.repositories for model in repository.models)

    def find(self, name: str) -> Model | None:
        return next((model for model in self.models if model.name == name), None)


def read_repositories(
    paths: Sequence[Path], roots: Sequence[Path]
) -> tuple[tuple[Repository, ...], tuple[Manifest, ...]]:
    """Reads every path: a repository, one model's folder, or manifests.

    `roots` are the folders that relative model paths in model.json are tried against, before the version's own folder.

    Raises:
        LintInputError: a path does not exist, cannot be read, or holds neither a model nor a scaler's manifest.
    """
    repositories: list[Repository] = []
    manifests: list[Manifest] = []
    for path in paths:
        repository, found = _read_path(path, roots)
        repositories.extend([repository] if repository is not None else [])
        manifests.extend(manifest for manifest in found if manifest not in manifests)
    return tuple(repositories), tuple(manifests)


def _read_path(path: Path, roots: Sequence[Path]) -> tuple[Repository | None, list[Manifest]]:
    try:
        if path.is_file():
            manifest = read_manifest(path)
            if manifest is None:
                raise LintInputError(
                    f"'{path}' is a file, and no manifest of a HorizontalPodAutoscaler or ScaledObject. "
                    "Name the folder of a model repository or of one model."
                )
            return None, [manifest]
        if not path.is_dir():
            detail = "is neither a folder nor a file" if path.exists() else "does not exist"
            if path.is_symlink() and not path.exists():
                detail = "leads nowhere (a dangling or looping symbolic link)"
            raise LintInputError(f"'{path}' {detail}. Name the folder of a model repository or of one model.")
        entries = _subfolders(path)
    except (OSError, RuntimeError, ValueError) as error:
        raise LintInputError(f"'{path}' cannot be read: {_reason(error)}.") from error
    manifests = list(find_manifests(path))
    if _looks_like_model(path):
        return Repository(path, (read_model(path, roots),)), manifests
    if any(_looks_like_model(entry) for entry in entries):
        return _read_repository(path, entries, roots), manifests
    if manifests:
        return None, manifests
    raise LintInputError(_not_a_repository(path, entries))


def _not_a_repository(path: Path, entries: Sequence[Path]) -> str:
    message = (
        f"'{path}' is no model repository: none of its {len(entries)} folders holds a config.pbtxt "
        "or a numeric version folder with a model file."
    )
    nested = next((entry for entry in entries if any(map(_looks_like_model, _subfolders_or_none(entry)))), None)
    return (
        f"{message} Did you mean '{nested}'?" if nested is not None else f"{message} Name the folder above the models."
    )


def _read_repository(path: Path, entries: Sequence[Path], roots: Sequence[Path]) -> Repository:
    models: list[Model] = []
    strays: list[Path] = []
    unreadable = [_broken_link(entry) for entry in _broken_links(path)]
    for entry in entries:
        try:
            if _looks_like_model(entry) or any(_version_number(sub.name) is not None for sub in _subfolders(entry)):
                models.append(read_model(entry, roots))
            else:
                strays.append(entry)
        except OSError as error:
            unreadable.append(Unreadable(entry, _reason(error)))
    return Repository(path, tuple(models), tuple(strays), tuple(unreadable))


def read_model(path: Path, roots: Sequence[Path]) -> Model:
    """Reads one model's folder: its config, the alternatives in configs/, and every version folder."""
    unreadable = [_broken_link(entry) for entry in _broken_links(path)]
    config_path = path / "config.pbtxt"
    config_file = _read_config(config_path, unreadable) if os.path.lexists(config_path) else None
    alternatives = [
        parsed
        for entry in sorted((path / "configs").glob("*.pbtxt"))
        if (parsed := _read_config(entry, unreadable)) is not None
    ]
    versions = [
        _read_version(entry, roots, unreadable)
        for entry in _subfolders_or_none(path)
        if entry.name not in _NOT_VERSIONS
    ]
    release = _read_release(path, config_file, unreadable)
    name = path.name if path.name not in {"", ".."} else path.resolve().name
    return Model(
        path, name, config_file, tuple(versions), tuple(alternatives), tuple(dict.fromkeys(unreadable)), release
    )


def _read_release(path: Path, config_file: ConfigFile | None, unreadable: list[Unreadable]) -> ReleaseDocument | None:
    config = config_file.config if config_file is not None else None
    named = config.parameters.get(PARAMETER) if config is not None else None
    if not named:
        return None
    return parse_release_document(path / named, _read_text(path / named, unreadable))


def _read_config(path: Path, unreadable: list[Unreadable]) -> ConfigFile | None:
    text = _read_text(path, unreadable)
    return None if text is None else parse_config(path, text)


def _read_version(path: Path, roots: Sequence[Path], unreadable: list[Unreadable]) -> Version:
    number = _version_number(path.name)
    if number is None:
        return Version(path, None)
    try:
        files = frozenset(entry.name for entry in os.scandir(path))
    except OSError as error:
        unreadable.append(Unreadable(path, _reason(error)))
        return Version(path, number)
    unreadable.extend(_broken_link(entry) for entry in _broken_links(path))
    arguments = _read_json(path / "model.json", files, unreadable)
    return Version(
        path=path,
        number=number,
        files=files,
        engine_arguments=arguments,
        lora_names=_read_json(path / "multi_lora.json", files, unreadable),
        artifacts=_find_artifacts(arguments, [*roots, path]),
    )


def _read_json(path: Path, files: frozenset[str], unreadable: list[Unreadable]) -> JsonDocument | None:
    text = _read_text(path, unreadable) if path.name in files else None
    return None if text is None else parse_json(path, text)


def _find_artifacts(document: JsonDocument | None, roots: Sequence[Path]) -> Mapping[str, Artifact]:
    arguments = document.object if document is not None else None
    if arguments is None:
        return {}
    speculative = arguments.get("speculative_config")
    draft = speculative.get("model") if isinstance(speculative, dict) else None
    keys = {"model", "tokenizer", "speculative_model", "speculative-model", "spec_model"}
    names = [draft, *(value for key, value in arguments.items() if key.lstrip("-") in keys)]
    found = {name: find_artifact(name, roots) for name in names if isinstance(name, str)}
    return {name: artifact for name, artifact in found.items() if artifact is not None}


def _read_text(path: Path, unreadable: list[Unreadable]) -> str | None:
    """The file's text; None, and an entry in `unreadable`, where it cannot be had."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # Opening a pipe waits for whoever writes into it.
            unreadable.append(Unreadable(path, "it is a pipe or a device, not a file"))
            return None
        size = path.stat().st_size
        if size > _MOST_BYTES:
            unreadable.append(Unreadable(path, f"it has {size:,} bytes, and is read only up to {_MOST_BYTES:,}"))
            return None
        data = path.read_bytes()
        if b"\0" in data:
            unreadable.append(Unreadable(path, "it is a binary file, not text"))
            return None
        if data.startswith(codecs.BOM_UTF8):
            unreadable.append(Unreadable(path, "it starts with a byte order mark, which the server takes for text"))
            return None
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        unreadable.append(
            Unreadable(path, f"it is not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}")
        )
    except (OSError, RuntimeError) as error:
        if not path.is_symlink():  # a broken link is reported as such
            unreadable.append(Unreadable(path, _reason(error)))
    return None


def _version_number(name: str) -> int | None:
    """How the server reads a folder's name: leading zeros and names without a leading number are ignored, the rest of
    a name that starts with a number is dropped."""
    if len(name) > 1 and name.startswith("0"):
        return None
    match = re.match(r"[+-]?[0-9]+", name)
    return int(match[0]) if match and len(match[0]) < 19 else None


def _looks_like_model(path: Path) -> bool:
    if os.path.lexists(path / "config.pbtxt"):
        return True
    versions = [entry for entry in _subfolders_or_none(path) if _version_number(entry.name) is not None]
    return any(os.path.lexists(version / name) for version in versions for name in backends.RECOGNISED_FILES)


def _subfolders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir())


def _subfolders_or_none(path: Path) -> list[Path]:
    try:
        return _subfolders(path)
    except OSError:
        return []


def _broken_links(path: Path) -> Iterator[Path]:
    """Symbolic links in a folder that lead nowhere, or in a circle."""
    try:
        entries = sorted(path.iterdir())
    except OSError:
        return
    yield from (entry for entry in entries if entry.is_symlink() and not entry.exists())


def _broken_link(path: Path) -> Unreadable:
    try:
        target = str(path.readlink())
    except OSError:
        target = "?"
    return Unreadable(path, f"it is a symbolic link to '{target}', which leads nowhere", is_link=True)


def _reason(error: Exception) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or str(error)).lower()
