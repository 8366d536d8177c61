"""From what the user names (a model, or the folder of an artifact) to the served model versions that are evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.client.request import Target
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVersion, VllmVariant

from .errors import EvaluationError


@dataclass(frozen=True)
class Served:
    """A model version, and the path of its weights in the profile; None for a model the profile does not have."""

    target: Target
    artifact: str | None

    def __str__(self) -> str:
        return str(self.target)


@dataclass(frozen=True)
class Targets:
    """What can be evaluated: the versions that are ready, seen through a profile. `home` is the checkout's root."""

    profile: Profile
    ready: Sequence[Target]
    home: Path

    def named(self, word: str) -> Served:
        """The newest ready version of the model, or the rung that serves the artifact.

        Raises EvaluationError when nothing that is ready answers to the word, or when it is an ensemble.
        """
        folder = Path(word)
        return self._serving(folder) if "/" in word or folder.is_dir() else self._model(word)

    def all_rungs(self) -> list[Served]:
        """Every ready version that the profile describes, in the profile's order. Raises EvaluationError: none."""
        found = [served for served in self._described() if served.target in self.ready]
        if not found:
            raise EvaluationError(
                f'no model of the profile "{self.profile.name}" is ready; see `./ladder status`, or name the models'
            )
        return found

    def default_reference(self) -> Served:
        """The first ready vLLM model that serves the unquantised weights and does not speculate.

        Raises EvaluationError when there is none.
        """
        path = self.profile.artifacts.bf16.path
        for served in self._by_fitness(path):
            if served.target in self.ready and isinstance(self.profile.variants[served.target.model], VllmVariant):
                return served
        raise EvaluationError(
            f'no ready vLLM model serves "{path}", which the others are compared with: load one '
            "(see `./ladder status`), or name another model with --reference"
        )

    def _model(self, word: str) -> Served:
        try:
            wanted = Target.parse(word)
        except ValueError as error:
            raise EvaluationError(str(error)) from error
        versions = [
            ready
            for ready in self.ready
            if ready.model == wanted.model and wanted.version in (None, ready.version) and ready.version is not None
        ]
        if not versions:
            raise EvaluationError(self._not_ready(wanted))
        target = max(versions, key=lambda ready: ready.version or 0)
        return Served(target, self._artifact(target))

    def _not_ready(self, wanted: Target) -> str:
        ready = ", ".join(str(target) for target in self.ready) or "none"
        return f'model "{wanted}" is not ready at this server; ready are {ready}; see `./ladder status`'

    def _serving(self, folder: Path) -> Served:
        wanted = folder.resolve()
        paths = {served.artifact for served in self._described() if served.artifact is not None}
        path = next((path for path in paths if (self.home / path).resolve() == wanted), None)
        if path is None:
            raise EvaluationError(
                f'no model of the profile "{self.profile.name}" serves "{folder}": its artifacts are '
                f"{', '.join(sorted(paths))}; name one of them, a model, or another --profile"
            )
        rungs = self._by_fitness(path)
        found = next((served for served in rungs if served.target in self.ready), None)
        if found is None:
            raise EvaluationError(
                f'"{folder}" is served by {" and ".join(map(str, rungs))}. {self._not_ready(rungs[0].target)}'
            )
        return found

    def _by_fitness(self, path: str) -> list[Served]:
        """The rungs that serve an artifact: vLLM before transformers, which hands out no log-probabilities, and plain
        ones before those that speculate.
        """
        return sorted((served for served in self._described() if served.artifact == path), key=self._oddity)

    def _oddity(self, served: Served) -> int:
        variant = self.profile.variants[served.target.model]
        if not isinstance(variant, VllmVariant):
            return 2
        return int(variant.versions[served.target.version or 0].get("speculative_config") is not None)

    def _described(self) -> Iterator[Served]:
        for name, variant in self.profile.variants.items():
            for version in variant.versions:
                target = Target(name, version)
                yield Served(target, self._artifact(target))

    def _artifact(self, target: Target) -> str | None:
        variant = self.profile.variants.get(target.model)
        version = None if variant is None else variant.versions.get(target.version or 0)
        if version is None:
            return None
        return version.model if isinstance(version, BaselineVersion) else str(version["model"])
