"""Judging a quantised checkpoint by what it costs in perplexity on text that calibration did not see."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tools.artifacts.manifest import Gate, Losses
from tools.spec.model import QualityBar


def judge(losses: Losses, bar: QualityBar) -> Gate:
    """The verdict; `reasons` holds a sentence for every bound that `bar` sets, whether it was kept or not."""
    verdicts = list(_verdicts(losses, bar))
    return Gate(passed=all(kept for kept, _ in verdicts), reasons=tuple(sentence for _, sentence in verdicts))


def _verdicts(losses: Losses, bar: QualityBar) -> Iterator[tuple[bool, str]]:
    original, rounded, quantized = (
        Losses.perplexity(loss) for loss in (losses.original, losses.rounded, losses.quantized)
    )
    if not math.isfinite(quantized):
        yield False, f"held-out perplexity is {quantized}, the original has {original:.2f}"
        return
    cost = quantized - original
    if bar.max_share_of_rounding is not None:
        allowed = bar.max_share_of_rounding * max(rounded - original, 0.0)
        yield (
            cost <= allowed,
            f"held-out perplexity {original:.2f} became {quantized:.2f}: {cost:+.2f}, allowed are {allowed:+.2f}, "
            f"{bar.max_share_of_rounding:.0%} of what rounding to nearest costs (it gives {rounded:.2f})",
        )
    if bar.max_perplexity_increase is not None:
        yield (
            cost <= bar.max_perplexity_increase * original,
            f"held-out perplexity {original:.2f} became {quantized:.2f}: {cost / original:+.1%}, allowed are "
            f"{bar.max_perplexity_increase:+.1%}",
        )
