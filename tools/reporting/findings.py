"""What the figures of a step say in words: what it gained, where it gained nothing, and why.

Every rule is a pure function of a step's figures and configuration, and says only what they show. The ones that
explain are asked about levels without a gain; where none of them has an answer, that is said too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from tools.reporting.break_even import crossing
from tools.reporting.figures import KINDS, Figure
from tools.reporting.gains import Direction, Gain
from tools.reporting.step import Comparison, Step

Kind = Literal["gain", "none", "loss", "reason", "note", "warning"]


class Finding(BaseModel):
    """One sentence or two; `levels` are the concurrencies it is about, empty for all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    text: str
    levels: tuple[int, ...] = ()


Rule = Callable[[Step], Iterator[Finding]]

# More streams than these times the tokens/s of one are batched; fewer are served one by one.
_SERIAL_BELOW: Final = 1.3
# Two points are no curve that could be said to cross anything.
_LEVELS_OF_A_CURVE: Final = 3


def findings_of(step: Step) -> list[Finding]:
    """What there is to say of a step, the outcome first."""
    found = [*outcome(step), *(finding for rule in _REASONS for finding in rule(step))]
    explained = {level for finding in found if finding.kind == "reason" for level in finding.levels}
    found += unexplained(step, explained)
    return found + [finding for rule in _NOTES for finding in rule(step)]


def outcome(step: Step) -> Iterator[Finding]:
    """Gains and losses over the rung below, and over the same weights without drafts."""
    for comparison in (step.below, step.alike):
        if comparison is not None and comparison.gains:
            yield _outcome_of(comparison)


def _outcome_of(comparison: Comparison) -> Finding:
    sentences = [_sentence(comparison, figure) for figure in ("tokens_per_s", "ttft_ms", "tpot_ms")]
    directions = {gain.direction for gain in comparison.gains if gain.figure == "tokens_per_s"}
    opening = f"Against {comparison.facts.label}: "
    if all(gain.direction != "gain" for gain in comparison.gains):
        opening = f"No gain over {comparison.facts.label}, in no figure and at no level: "
    kind: Kind = "gain" if "gain" in directions else "loss" if "loss" in directions else "none"
    return Finding(kind=kind, text=opening + "; ".join(filter(None, sentences)) + ".")


def _sentence(comparison: Comparison, figure: Figure) -> str:
    """What became of one figure, by direction; empty where it was not measured."""
    gains = [gain for gain in comparison.gains if gain.figure == figure]
    words: dict[Direction, str] = {"gain": "better by", "loss": "worse by", "none": "no difference seen"}
    parts = []
    for direction, word in words.items():
        alike = [gain for gain in gains if gain.direction == direction]
        if alike:
            levels = "" if len(alike) == len(gains) else f" at {_list([gain.level for gain in alike])}"
            parts.append(f"{word}{levels}" if direction == "none" else f"{word} {_at_levels(alike)}")
    return f"{KINDS[figure].name} {', '.join(parts)}" if parts else ""


def other_weights(step: Step) -> Iterator[Finding]:
    """A rung that drafts on other weights than the rung below changes two things at once."""
    if step.alike is None or step.below is None or step.below.facts.weights == step.facts.weights:
        return
    yield Finding(
        kind="note",
        text=(
            f'{step.facts.label} drafts for "{step.facts.weights}", the weights of {step.alike.facts.label}, and '
            f'{step.below.facts.label} below it serves "{step.below.facts.weights}": what drafting alone brings is the '
            f"comparison with {step.alike.facts.label}."
        ),
    )


def one_stream_has_no_batch(step: Step) -> Iterator[Finding]:
    """Batching, static or continuous, is what a single stream cannot use."""
    below = step.below
    if below is None or step.facts.batch <= below.facts.batch or 1 not in below.without_gain():
        return
    yield Finding(
        kind="reason",
        text=(
            f"At 1 stream there is nothing to batch: what this rung adds, up to {step.facts.batch} requests at once "
            f"instead of {below.facts.batch}, shows with more of them."
        ),
        levels=(1,),
    )


def static_batch_is_full(step: Step) -> Iterator[Finding]:
    """What is generated together ends together, and the next batch waits for it."""
    facts, below = step.facts, step.below
    if facts.engine != "transformers" or facts.batch == 1 or below is None:
        return
    slower = tuple(
        level
        for level in step.levels
        if level > 1 and (gain := below.gain("ttft_ms", level)) is not None and gain.direction != "gain"
    )
    if slower:
        yield Finding(
            kind="note",
            text=(
                f"A batch of at most {facts.batch} is generated to its end before the next one begins: a request that "
                "comes meanwhile waits for it, which is in its TTFT."
            ),
            levels=slower,
        )


def attention_is_little(step: Step) -> Iterator[Finding]:
    """Another attention kernel cannot gain more than attention takes."""
    below = step.below
    if below is None or step.facts.attention == below.facts.attention or step.facts.engine != below.facts.engine:
        return
    levels = tuple(below.without_gain())
    if not levels:
        return
    parts = []
    if step.accelerator == "cpu" and step.facts.attention == "flash_attention_2":
        parts.append("Without a GPU there is no FlashAttention-2, and the engine takes torch's sdpa.")
    if step.sizes is not None:
        percent = step.sizes.attention_percent(step.context)
        parts.append(
            f"At {step.context} tokens of context attention is {percent:.1f} % of a token's multiplications, so "
            "another kernel for it changes little; its share grows with the context."
        )
    if parts:
        yield Finding(kind="reason", text=" ".join(parts), levels=levels)


def weights_are_not_the_bound(step: Step) -> Iterator[Finding]:
    """Smaller weights help as far as reading them is what a step waits for."""
    below, facts = step.below, step.facts
    if below is None or not facts.quantised or below.facts.quantised or facts.engine != below.facts.engine:
        return
    before, after = below.facts.weights_bytes, facts.weights_bytes
    # Where TPOT fell, weights were part of it, whatever became of tokens/s.
    levels = sorted({*below.without_gain("tokens_per_s")} & {*below.without_gain("tpot_ms")})
    if not before or not after or not levels:
        return
    tpots = ", ".join(
        f"{below.levels[level].tpot_ms.median:.3g} to {step.levels[level].tpot_ms.median:.3g} ms at {level}"
        for level in levels
    )
    # Bytes by milliseconds are thousands of bytes a second, and GB/s are thousands of thousands of those.
    rate = before / below.levels[levels[0]].tpot_ms.median / 1e6
    yield Finding(
        kind="reason",
        text=(
            f"The weights shrank {before / after:.1f} times ({before / 1e6:,.0f} to {after / 1e6:,.0f} MB) and TPOT "
            f"went from {tpots}: reading weights is not what a step waits for here. Reading all of them once a step, "
            f"as {below.facts.label} does at {levels[0]}, takes {rate:.2g} GB/s; unpacking 4 bits takes arithmetic "
            "instead."
        ),
        levels=tuple(levels),
    )


def drafts_cost_what_they_bring(step: Step) -> Iterator[Finding]:
    """Speculation gains acceptance length by the cost of a step; both are in the figures."""
    reference = step.undrafted
    if reference is None:
        return
    for level, figures in sorted(step.levels.items()):
        gain, length = reference.gain("tpot_ms", level), figures.acceptance_length
        if gain is None or length is None:
            continue
        cost = length / gain.ratio.median
        kept = f", {100 * figures.acceptance_rate:.0f} % of them kept" if figures.acceptance_rate is not None else ""
        throughput = reference.gain("tokens_per_s", level)
        without_gain = throughput is not None and throughput.direction != "gain"
        yield Finding(
            kind="reason" if without_gain else "note",
            text=(
                f"At {level}: drafts of {step.facts.draft_tokens}{kept}, {length:.2f} tokens a step. By TPOT a step "
                f"takes {cost:.2f} times one of {reference.facts.label}, so a token takes {cost / length:.2f} times as "
                "long."
            ),
            levels=(level,),
        )


def outside_golden_interval(step: Step) -> Iterator[Finding]:
    """The profile says up to which concurrency speculation is expected to pay."""
    interval, reference = step.facts.golden_interval, step.undrafted
    if interval is None or reference is None:
        return
    for level in reference.without_gain():
        if level <= interval.best_up_to:
            continue
        where = "past" if level > interval.break_even_at else "at" if level == interval.break_even_at else "short of"
        yield Finding(
            kind="reason",
            text=(
                f"{level} streams are outside the golden interval of the profile (best up to {interval.best_up_to}) "
                f"and {where} its break-even at {interval.break_even_at}: a full batch leaves no idle arithmetic to "
                "draft with."
            ),
            levels=(level,),
        )


def acceptance_is_made_up(step: Step) -> Iterator[Finding]:
    """Without trained weights a draft is never right: the engine then takes a share of it by itself."""
    length = step.facts.synthetic_length
    if length is not None:
        yield Finding(
            kind="warning",
            text=(
                f"Synthetic acceptance: the engine keeps {length:g} tokens a step on average, whatever the drafts say. "
                "The cost of drafting is real, what it brings is an assumption."
            ),
        )


def measured_break_even(step: Step) -> Iterator[Finding]:
    """Up to which concurrency speculation paid, by these figures."""
    reference = step.undrafted
    if reference is None:
        return
    ratios = {
        level: gain.ratio.median
        for level in sorted(step.levels)
        if (gain := reference.gain("tokens_per_s", level)) is not None
    }
    if len(ratios) < _LEVELS_OF_A_CURVE:
        return
    found, label = crossing(ratios), reference.facts.label
    if found is not None:
        at, low, high = found
        text = (
            f"Measured, speculation pays up to about {at:.0f} streams: it has {ratios[low]:.3g} times the tokens/s of "
            f"{label} at {low}, and {ratios[high]:.3g} times at {high}."
        )
    elif all(ratio >= 1 for ratio in ratios.values()):
        level = max(ratios)
        text = (
            f"Measured, speculation pays at every level: {label} has fewer tokens/s up to {level} streams, where the "
            f"ratio is {ratios[level]:.3g}."
        )
    else:
        level = min(ratios)
        text = (
            f"Measured, speculation does not pay at {level} already: it has {ratios[level]:.3g} times the tokens/s of "
            f"{label}."
        )
    yield Finding(kind="note", text=text)


def more_streams_than_places(step: Step) -> Iterator[Finding]:
    """Streams beyond the running batch wait, and their waiting is in the TTFT."""
    facts, below = step.facts, step.below
    beyond = [level for level in sorted(step.levels) if facts.engine == "vllm" and level > facts.batch]
    if not beyond or below is None or below.facts.batch <= facts.batch:
        return
    without = [level for level in beyond if level in below.without_gain()]
    yield Finding(
        kind="reason" if without else "note",
        text=(
            f"The engine runs {facts.batch} requests at once ({below.facts.label}: {below.facts.batch}); at "
            f"{_list(beyond)} streams the others wait, which is in their TTFT."
        ),
        levels=tuple(without or beyond),
    )


def unexplained(step: Step, explained: set[int]) -> Iterator[Finding]:
    """Levels without a gain in tokens/s that no rule has a reason for."""
    reference = step.undrafted or step.below
    open_levels = [level for level in reference.without_gain() if level not in explained] if reference else []
    if open_levels:
        yield Finding(
            kind="note",
            text=f"Why tokens/s did not rise at {_list(open_levels)} these figures do not say.",
            levels=tuple(open_levels),
        )


def served_one_by_one(step: Step) -> Iterator[Finding]:
    """More streams, the same tokens/s: they are queued."""
    levels = sorted(step.levels)
    if len(levels) < 2 or step.facts.batch > 1:
        return
    first, last = step.levels[levels[0]], step.levels[levels[-1]]
    if last.tokens_per_s.median < _SERIAL_BELOW * first.tokens_per_s.median:
        yield Finding(
            kind="note",
            text=(
                f"Requests are served one by one: {first.tokens_per_s.median:,.3g} tokens/s at {first.level} and "
                f"{last.tokens_per_s.median:,.3g} at {last.level}, where TTFT is {last.ttft_ms.median / 1e3:,.3g} s of "
                "waiting in line."
            ),
        )


def memory_is_reserved(step: Step) -> Iterator[Finding]:
    """An engine that pages its KV cache takes the memory before anybody asks."""
    if step.facts.reserved_memory and step.below is not None and not step.below.facts.reserved_memory:
        yield Finding(
            kind="note",
            text=f"Its memory is reserved before the first request: {step.facts.reserved_memory}, in use or not.",
        )


def client_fell_behind(step: Step) -> Iterator[Finding]:
    """Figures of a saturated client are the client's as much as the server's."""
    for level, figures in sorted(step.levels.items()):
        if figures.saturated:
            yield Finding(
                kind="warning",
                text=f"At {level} the load generator did not keep up: {'; '.join(figures.saturated)}.",
                levels=(level,),
            )


def time_limit_cut(step: Step) -> Iterator[Finding]:
    """A cell that met its time limit knows only the latencies of those that were served early."""
    for level, figures in sorted(step.levels.items()):
        if figures.cut:
            yield Finding(
                kind="note",
                text=(
                    f"At {level} the time limit cut {figures.cut} requests off: tokens/s has the tokens they had "
                    f"received, the latencies are of the {figures.answered} that were answered by then, and those of "
                    "all would be longer."
                ),
                levels=(level,),
            )


_REASONS: Final[Sequence[Rule]] = (
    attention_is_little,
    one_stream_has_no_batch,
    weights_are_not_the_bound,
    drafts_cost_what_they_bring,
    measured_break_even,
    outside_golden_interval,
    more_streams_than_places,
)
_NOTES: Final[Sequence[Rule]] = (
    other_weights,
    static_batch_is_full,
    served_one_by_one,
    memory_is_reserved,
    client_fell_behind,
    time_limit_cut,
    acceptance_is_made_up,
)


def _at_levels(gains: Sequence[Gain]) -> str:
    return _list([f"{_times(gain)} at {gain.level}" for gain in gains])


def _times(gain: Gain) -> str:
    """2.5×, for better or for worse."""
    ratio = gain.ratio.median
    return f"{ratio if gain.direction == 'gain' else 1 / ratio:.3g}×"


def _list(items: Sequence[object]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
