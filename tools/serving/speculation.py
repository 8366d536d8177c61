"""How well speculative decoding does, from the server's own metrics: what `vllm:spec_decode_*` counted so far."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict

_PREFIX: Final = "vllm:spec_decode_num_"
_TIMEOUT_S: Final = 2.0


class SpeculationStatus(BaseModel):
    """One version of a model that drafts, since its engine started.

    `mean_acceptance_length` = 1 + accepted / drafts: tokens of one step of the target. `acceptance_rate` = accepted /
    drafted. `by_position`: share of the drafts whose i-th token was accepted.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    version: int
    drafts: int
    mean_acceptance_length: float
    acceptance_rate: float
    by_position: list[float]


def speculation_at(metrics_port: int) -> list[SpeculationStatus]:
    """Every model that has drafted, by name and version; empty when the server does not answer."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{metrics_port}/metrics", timeout=_TIMEOUT_S, trust_env=False)
        answer.raise_for_status()
    except httpx.HTTPError:
        return []
    return speculation_in(answer.text)


def speculation_in(metrics: str) -> list[SpeculationStatus]:
    """The same, from the text of the metrics page."""
    totals: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    positions: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if not sample.name.startswith(_PREFIX):
                continue
            engine = sample.labels["model"], int(sample.labels["version"])
            if "position" in sample.labels:
                positions[engine][int(sample.labels["position"])] = sample.value
            else:
                totals[engine][sample.name.removeprefix(_PREFIX)] += sample.value
    return [
        _status(*engine, counted, [positions[engine][place] for place in sorted(positions[engine])])
        for engine, counted in sorted(totals.items())
        if counted["drafts_total"]
    ]


def _status(name: str, version: int, counted: dict[str, float], by_position: list[float]) -> SpeculationStatus:
    drafts, accepted = counted["drafts_total"], counted["accepted_tokens_total"]
    return SpeculationStatus(
        name=name,
        version=version,
        drafts=int(drafts),
        mean_acceptance_length=round(1 + accepted / drafts, 3),
        acceptance_rate=round(accepted / (counted["draft_tokens_total"] or 1), 3),
        by_position=[round(value / drafts, 3) for value in by_position],
    )
