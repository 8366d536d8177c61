"""The profile as a whole, and the checks that need more than one part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from .base import SpecModel, failure
from .engine_arguments import check_engine_arguments
from .environment import Environment
from .limits import Limits, Sla
from .model import Artifacts, ServedModel, Target
from .quality import Quality
from .release import Release, ReleaseTarget, everything_to
from .variants import BaselineVariant, BaselineVersion, Variant, VllmVariant

VariantName = Annotated[str, Field(pattern=r"^llm_[a-z0-9_]+$")]
ProfileName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class Profile(SpecModel):
    """One deployment target: which model, in which variants, with which arguments, limits and promise."""

    name: ProfileName
    target: Target
    model: ServedModel
    artifacts: Artifacts
    limits: Limits
    sla: Sla = Sla()
    quality: Quality = Quality()
    environment: Environment = Field(default_factory=dict)
    release: Release | None = None
    variants: Annotated[dict[VariantName, Variant], Field(min_length=1)]

    @property
    def enabled_variants(self) -> dict[str, BaselineVariant | VllmVariant]:
        """The variants that are rendered and served, in the profile's order."""
        return {name: variant for name, variant in self.variants.items() if variant.enabled}

    @property
    def tokenizer_max_model_len(self) -> int:
        """The longest context any enabled version accepts: more than that no engine would take, in tokens."""
        lengths = [length for variant in self.enabled_variants.values() for length in variant.max_model_lens()]
        return max(length or self.model.context_length for length in lengths)

    @property
    def start_release(self) -> Release:
        """Where the router starts: the profile's own release, or everything to the newest version of the first variant
        that vLLM serves (of the first at all, where it serves none).
        """
        if self.release is not None:
            return self.release
        variants = self.enabled_variants
        name = next(
            (name for name, variant in variants.items() if isinstance(variant, VllmVariant)), next(iter(variants))
        )
        return everything_to(ReleaseTarget(model=name, version=max(variants[name].loaded_versions)))

    def environment_of(self, variant: BaselineVariant | VllmVariant) -> dict[str, str]:
        """What the variant's engines get: the profile's variables, and over them the variant's own."""
        return {**self.environment, **variant.environment}

    def limits_of(self, variant: BaselineVariant | VllmVariant) -> Limits:
        """The variant's own limits, or the profile's."""
        return variant.limits or self.limits

    @model_validator(mode="after")
    def _parts_fit(self) -> Profile:
        problems = [
            *self._artifact_problems(),
            *self._dummy_problems(),
            *self._variant_problems(),
            *self._release_problems(),
        ]
        if problems:
            raise failure("; ".join(problems))
        return self

    def _artifact_problems(self) -> Iterator[str]:
        awq, draft = self.artifacts.awq, self.artifacts.draft
        if awq and self.model.hidden_size % awq.group_size:
            yield (
                f'"artifacts.awq.group_size" {awq.group_size} does not divide "model.hidden_size" '
                f"{self.model.hidden_size}: quantise with a group size that does"
            )
        if draft and draft.hidden_size != self.model.hidden_size:
            yield (
                f'"artifacts.draft.hidden_size" {draft.hidden_size} is not "model.hidden_size" '
                f"{self.model.hidden_size}: an EAGLE head reads the target's hidden states, take one made for it"
            )
        if draft and draft.vocab_size > self.model.vocab_size:
            yield (
                f'"artifacts.draft.vocab_size" {draft.vocab_size} is over "model.vocab_size" '
                f"{self.model.vocab_size}: take a head made for this target"
            )

    def _dummy_problems(self) -> Iterator[str]:
        dummy = self.artifacts.dummy_weights
        if dummy and self.model.num_hidden_layers is None:
            yield '"artifacts.dummy_weights" is true: give "model" its sizes, from "intermediate_size" on'
        for name, variant in self.variants.items():
            for number, version in variant.versions.items():
                written = version.load_format if isinstance(version, BaselineVersion) else version.get("load_format")
                if (written == "dummy") is not dummy:
                    yield (
                        f'"variants.{name}.versions.{number}": "load_format" is {written!r} and '
                        f'"artifacts.dummy_weights" is {str(dummy).lower()}: weights are made up everywhere or nowhere'
                    )

    def _variant_problems(self) -> Iterator[str]:
        if not self.enabled_variants:
            yield 'every variant has "enabled: false": nothing would be served, enable one'
        for name, variant in self.variants.items():
            for number in sorted(set(variant.load_versions or ()) - set(variant.versions)):
                yield (f'"variants.{name}.load_versions" names version {number}, which "versions" does not describe')
            if isinstance(variant, BaselineVariant):
                yield from self._baseline_problems(name, variant)
            else:
                for number, arguments in variant.versions.items():
                    where = f'"variants.{name}.versions.{number}"'
                    yield from check_engine_arguments(where, arguments, self.model, self.artifacts, self.target)
                    yield from self._speculation_problems(where, variant, arguments)

    def _speculation_problems(
        self, where: str, variant: VllmVariant, arguments: Mapping[str, JsonValue]
    ) -> Iterator[str]:
        """Beyond its golden interval speculation slows everybody down, so no more may run, and none may pile up."""
        interval, running = variant.golden_interval, arguments.get("max_num_seqs")
        if interval is None:
            if arguments.get("speculative_config") is not None:
                yield f'{where} speculates: state its "golden_interval", which bounds how many requests it takes'
            return
        if not isinstance(running, int) or running > interval.best_up_to:
            yield f'{where}: "max_num_seqs" is {running!r}, over "golden_interval.best_up_to" {interval.best_up_to}'
            return
        waiting = self.limits_of(variant).max_waiting_requests
        if running + waiting > interval.break_even_at:
            yield (
                f'{where}: {running} running and {waiting} waiting requests are over "golden_interval.break_even_at" '
                f'{interval.break_even_at}: lower "limits.max_waiting_requests" of the variant'
            )

    def _release_problems(self) -> Iterator[str]:
        variants = self.enabled_variants
        for target in () if self.release is None else self.release.targets().values():
            if target.model not in variants:
                yield f'"release" names "{target.name}", but no variant "{target.model}" is enabled: enable it'
            elif target.version not in (loaded := variants[target.model].loaded_versions):
                yield (
                    f'"release" names "{target.name}", but of "{target.model}" only version '
                    f"{', '.join(map(str, sorted(loaded)))} is loaded"
                )

    def _baseline_problems(self, name: str, variant: BaselineVariant) -> Iterator[str]:
        for number, version in variant.versions.items():
            where = f'"variants.{name}.versions.{number}"'
            if version.model != self.artifacts.bf16.path:
                yield f'{where}: "model" {version.model!r} is not "artifacts.bf16.path" {self.artifacts.bf16.path!r}'
            if version.max_model_len > self.model.context_length:
                yield (
                    f'{where}: "max_model_len" {version.max_model_len} is over "model.context_length" '
                    f"{self.model.context_length}"
                )
