"""What the server itself counts about an engine: the memory it took at most, and how its drafts did."""

from __future__ import annotations

from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict

from tools.client.request import Target

_PEAK: Final = "ladder_peak_memory_bytes"
_DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
_DRAFTED: Final = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED: Final = "vllm:spec_decode_num_accepted_tokens_total"
_TIMEOUT_S: Final = 5.0


class Drafting(BaseModel):
    """Drafts, the tokens in them, and those of them that were accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def acceptance_length(self) -> float | None:
        """Tokens of a step: the target's own and the accepted ones; None without a draft."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that were accepted."""
        return self.accepted / self.drafted if self.drafted else None

    def since(self, before: Drafting) -> Drafting:
        """What was counted after `before`; everything, if the engine has started anew meanwhile."""
        if self.drafts < before.drafts:
            return self
        return Drafting(
            drafts=self.drafts - before.drafts,
            drafted=self.drafted - before.drafted,
            accepted=self.accepted - before.accepted,
        )

    def plus(self, other: Drafting) -> Drafting:
        return Drafting(
            drafts=self.drafts + other.drafts,
            drafted=self.drafted + other.drafted,
            accepted=self.accepted + other.accepted,
        )


class EngineMetrics(BaseModel):
    """One engine's metrics at one time. `peak_memory_bytes` is None while it says nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    peak_memory_bytes: int | None = None
    drafting: Drafting = Drafting()


def engine_metrics_at(url: str, target: Target) -> EngineMetrics:
    """The metrics of a model version on a metrics page; empty ones where the page cannot be had."""
    try:
        answer = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False)
        answer.raise_for_status()
    except httpx.HTTPError:
        return EngineMetrics()
    return engine_metrics_in(answer.text, target)


def engine_metrics_in(page: str, target: Target) -> EngineMetrics:
    """The same, out of the page's text."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if (sample.labels.get("model"), sample.labels.get("version")) == (target.model, str(target.version)):
                found[sample.name] = sample.value
    return EngineMetrics(
        peak_memory_bytes=int(found.get(_PEAK, 0)) or None,
        drafting=Drafting(
            drafts=int(found.get(_DRAFTS, 0)),
            drafted=int(found.get(_DRAFTED, 0)),
            accepted=int(found.get(_ACCEPTED, 0)),
        ),
    )
