"""The figures that the tutorials behind this ladder publish for an A100, next to a report's own, and why they differ.

They are for Llama-2-7B-Chat on an A100 with 40 GB, a prompt of 50 tokens and 256 tokens of answer. A rung of theirs is
named as here; there is no v1b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tools.reporting.figures import KINDS, Figure
from tools.reporting.model import Report, RungReport

CARD: Final = "A100 40 GB"
# One request at a time: more streams than one get what one gets.
_SERIAL: Final = (1, 16, 32, 64)
# Apart by less than this, two ratios say the same.
_SAME: Final = 0.1
_MATRIX_WEIGHTS: Final = 6.6e9
_BF16_BYTES: Final = 2.0
# 4 bits, and for each 128 of them 16 bits of scale and 4 of zero.
_AWQ_BYTES: Final = 4.16 / 8
# Bytes a second, of NVIDIA's data sheets.
_BANDWIDTH: Final = {"A100 40 GB": 1.555e12, "H100": 3.35e12, "H200": 4.8e12, "L40S": 0.864e12, "B200": 8.0e12}


@dataclass(frozen=True, slots=True)
class Published:
    """Medians with one stream, in milliseconds, and output tokens a second by streams."""

    ttft_ms: float
    tpot_ms: float
    tokens_per_s: Mapping[int, float] = field(default_factory=dict)

    def value(self, figure: Figure, level: int) -> float | None:
        """None for what was not published."""
        if figure == "tokens_per_s":
            return self.tokens_per_s.get(level)
        return getattr(self, figure, None) if level == 1 else None


A100: Final[Mapping[str, Published]] = {
    "v0": Published(850, 40, dict.fromkeys(_SERIAL, 25)),
    "v1": Published(600, 28, dict.fromkeys(_SERIAL, 36)),
    "v2": Published(200, 20, {1: 50, 32: 1100, 64: 720}),
    "v3": Published(180, 14, {16: 700, 32: 1700, 64: 2100}),
    "v4": Published(150, 6, {16: 2200, 64: 1800}),
}
_STEPS: Final = (("v0", "v1"), ("v1", "v2"), ("v2", "v3"), ("v3", "v4"))
_COMPARED: Final[tuple[tuple[Figure, int], ...]] = (
    ("ttft_ms", 1),
    ("tpot_ms", 1),
    ("tokens_per_s", 16),
    ("tokens_per_s", 32),
    ("tokens_per_s", 64),
)


@dataclass(frozen=True, slots=True)
class ClaimedGain:
    """How many times better `above` is than `below` in one figure: as published, and here."""

    below: str
    above: str
    figure: Figure
    level: int
    claimed: float
    ours: float
    why: str


def claimed_gains(report: Report) -> Iterator[ClaimedGain]:
    """Every published gain of a rung over the one below whose figures this report has, too."""
    rungs = {rung.facts.label: rung for rung in report.rungs}
    for below, above in _STEPS:
        if below not in rungs or above not in rungs:
            continue
        for figure, level in _COMPARED:
            claimed = _ratio(figure, A100[below].value(figure, level), A100[above].value(figure, level))
            ours = _ratio(figure, _measured(rungs[below], figure, level), _measured(rungs[above], figure, level))
            if claimed is None or ours is None:
                continue
            why = _why(report, rungs[below], rungs[above], figure, level, claimed, ours)
            yield ClaimedGain(below, above, figure, level, claimed, ours, why)


def _ratio(figure: Figure, before: float | None, after: float | None) -> float | None:
    if not before or not after:
        return None
    return after / before if KINDS[figure].more_is_better else before / after


def _measured(rung: RungReport, figure: Figure, level: int) -> float | None:
    found = rung.level(level)
    return None if found is None else found.spread(figure).median


def _why(
    report: Report, below: RungReport, above: RungReport, figure: Figure, level: int, claimed: float, ours: float
) -> str:
    if abs(ours / claimed - 1) <= _SAME:
        return "as published"
    reasons = [
        *_attention(report, below, above),
        *_one_stream_and_more(below, above, figure, level),
        *_over_the_floor(report, below, above, figure),
        *_drafts(above, figure, level, ours),
    ]
    return "; ".join(reasons) or "these figures do not say"


def _attention(report: Report, below: RungReport, above: RungReport) -> Iterator[str]:
    """Another attention kernel cannot bring more than attention takes."""
    same_engine = below.facts.engine == above.facts.engine
    if same_engine and below.facts.attention != above.facts.attention and report.sizes is not None:
        context = report.settings.input_tokens + report.settings.output_tokens
        percent = report.sizes.attention_percent(context)
        yield f"at {context} tokens of context attention is {percent:.1f} % of a token's multiplications"


def _one_stream_and_more(below: RungReport, above: RungReport, figure: Figure, level: int) -> Iterator[str]:
    """A gain at many streams is the gain at one times what more streams bring more of."""
    if figure != "tokens_per_s" or level == 1:
        return
    labels = below.facts.label, above.facts.label
    ours = [(_measured(rung, figure, 1), _measured(rung, figure, level)) for rung in (below, above)]
    theirs = [(A100[label].value(figure, 1), A100[label].value(figure, level)) for label in labels]
    sentences = []
    for whose, pairs in (("here", ours), ("there", theirs)):
        (one_before, many_before), (one_after, many_after) = pairs
        if one_before and many_before and one_after and many_after:
            sentences.append(
                f"{whose} {one_after / one_before:.3g}× with one stream; from 1 to {level} streams {labels[1]} becomes "
                f"{many_after / one_after:.3g}× as fast, {labels[0]} {many_before / one_before:.3g}×"
            )
    yield from sentences


def _over_the_floor(report: Report, below: RungReport, above: RungReport, figure: Figure) -> Iterator[str]:
    """At one stream a step cannot take less than reading the weights once."""
    bandwidth = next((rate for card, rate in _BANDWIDTH.items() if any(card in gpu for gpu in report.machine.gpus)), 0)
    if figure != "tpot_ms" or not bandwidth or report.sizes is None:
        return
    for rung in (below, above):
        if rung.facts.draft_tokens:
            continue
        size = _AWQ_BYTES if rung.facts.quantised else _BF16_BYTES
        ours = (_measured(rung, figure, 1) or 0.0) / (1e3 * report.sizes.matrix_weights * size / bandwidth)
        theirs = A100[rung.facts.label].tpot_ms / (1e3 * _MATRIX_WEIGHTS * size / _BANDWIDTH[CARD])
        yield (
            f"a token of {rung.facts.label} takes {ours:.2g} times what reading its weights takes at this card's "
            f"bandwidth (there {theirs:.2g} times)"
        )


def _drafts(above: RungReport, figure: Figure, level: int, ours: float) -> Iterator[str]:
    """Speculation gains acceptance length by the cost of a step."""
    found = above.level(level)
    if above.facts.draft_tokens and figure == "tpot_ms" and found is not None and found.acceptance_length is not None:
        length = found.acceptance_length
        yield f"here {length:.2f} tokens a step, which takes {length / ours:.2f} times one without drafts"
    elif above.facts.draft_tokens and figure == "tokens_per_s":
        yield f"there at most 16 requests run at once, here {above.facts.batch}"
