"""What the figures of a step say. Every rule: when it speaks, when it is silent, and its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.reporting.examples import SIZES, SPEEDS, V0, V1, V1B, V2, V3, V4, cell, figures
from tools.reporting import findings
from tools.reporting.figures import LevelFigures, level_figures
from tools.reporting.findings import Finding, findings_of
from tools.reporting.gains import gains
from tools.reporting.rungs import RungFacts
from tools.reporting.server_metrics import Drafting
from tools.reporting.step import Comparison, Step

Speeds = Mapping[int, tuple[float, float, float]]


def levels(facts: RungFacts, speeds: Speeds, *, accepted: int = 95, **changes: object) -> dict[int, LevelFigures]:
    drafting = Drafting(drafts=100, drafted=300, accepted=accepted) if facts.draft_tokens else Drafting()
    found = {}
    for level, speed in speeds.items():
        cells = [cell(facts.label, level, repeat, speed, drafting=drafting, **changes) for repeat in (1, 2, 3)]
        figures = level_figures(cells)
        assert figures is not None
        found[level] = figures
    return found


def step(
    facts: RungFacts,
    below: RungFacts | None,
    speeds: Speeds | None = None,
    below_speeds: Speeds | None = None,
    *,
    alike: RungFacts | None = None,
    **changes: object,
) -> Step:
    """A step with the examples' speeds, unless others are given."""
    of_rung = levels(facts, speeds or SPEEDS[facts.label], **changes)

    def compared(other: RungFacts | None, other_speeds: Speeds | None) -> Comparison | None:
        if other is None:
            return None
        figures = levels(other, other_speeds or SPEEDS[other.label])
        return Comparison(other, figures, tuple(gains(of_rung, figures, other.label)))

    return Step("cpu", SIZES, 66, facts, of_rung, compared(below, below_speeds), compared(alike, None))


def texts(found: Sequence[Finding]) -> list[str]:
    return [finding.text for finding in found]


def test_the_outcome_names_gains_losses_and_levels() -> None:
    (found,) = findings.outcome(step(V1B, V1))
    assert found.kind == "gain"
    assert found.text == (
        "Against v1: tokens/s better by 3.6× at 8 and 3.76× at 32, no difference seen at 1; TTFT better by 9.75× at 8 "
        "and 3.52× at 32, worse by 1.08× at 1; TPOT worse by 2.07× at 8 and 2.09× at 32, no difference seen at 1."
    )


def test_a_rung_that_gains_nothing_anywhere_says_so() -> None:
    (found,) = findings.outcome(step(V3, V2))
    assert found.kind == "loss"
    assert found.text.startswith("No gain over v2, in no figure and at no level: tokens/s worse by 1.06× at 1")
    (same,) = findings.outcome(step(V1, V0, SPEEDS["v0"]))
    assert same.kind == "none"
    assert same.text == (
        "No gain over v0, in no figure and at no level: tokens/s no difference seen; TTFT no difference seen; TPOT no "
        "difference seen."
    )


def test_the_lowest_rung_has_no_outcome() -> None:
    assert list(findings.outcome(step(V0, None))) == []


class TestAttention:
    def test_without_a_gpu_it_is_sdpa_and_little_of_the_arithmetic(self) -> None:
        (found,) = findings.attention_is_little(step(V1, V0, SPEEDS["v0"]))
        assert found.levels == (1, 8, 32)
        assert found.text == (
            "Without a GPU there is no FlashAttention-2, and the engine takes torch's sdpa. At 66 tokens of context "
            "attention is 1.7 % of a token's multiplications, so another kernel for it changes little; its share grows "
            "with the context."
        )

    def test_on_a_gpu_only_the_arithmetic_is_said(self) -> None:
        (found,) = findings.attention_is_little(replace(step(V1, V0, SPEEDS["v0"]), accelerator="cuda"))
        assert found.text.startswith("At 66 tokens of context attention is 1.7 %")

    def test_levels_that_gained_are_not_explained_away(self) -> None:
        faster = {level: (2 * speed, ttft / 2, tpot / 2) for level, (speed, ttft, tpot) in SPEEDS["v0"].items()}
        assert list(findings.attention_is_little(step(V1, V0, faster))) == []
        (found,) = findings.attention_is_little(step(V1, V0, {**faster, 8: SPEEDS["v0"][8]}))
        assert found.levels == (8,)

    def test_another_engine_is_another_matter(self) -> None:
        assert list(findings.attention_is_little(step(V2, V1B, SPEEDS["v1b"]))) == []

    def test_without_sizes_there_is_no_share(self) -> None:
        assert (
            list(findings.attention_is_little(replace(step(V1, V0, SPEEDS["v0"]), accelerator="cuda", sizes=None)))
            == []
        )


class TestBatching:
    def test_one_stream_has_no_batch(self) -> None:
        (found,) = findings.one_stream_has_no_batch(step(V1B, V1))
        assert found.levels == (1,)
        assert "up to 8 requests at once instead of 1" in found.text

    def test_where_one_stream_gains_nothing_is_explained(self) -> None:
        assert list(findings.one_stream_has_no_batch(step(V2, V1B))) == []

    def test_a_smaller_batch_is_no_batching(self) -> None:
        assert list(findings.one_stream_has_no_batch(step(V4, V3, SPEEDS["v3"]))) == []

    def test_a_static_batch_makes_latecomers_wait_where_ttft_shows_it(self) -> None:
        assert list(findings.static_batch_is_full(step(V1B, V1))) == []
        (found,) = findings.static_batch_is_full(step(V1B, V1, {**SPEEDS["v1b"], 32: (64.0, 16_000.0, 121.0)}))
        assert found.levels == (32,)
        assert found.text.startswith("A batch of at most 8 is generated to its end")

    def test_one_by_one_when_streams_bring_no_tokens(self) -> None:
        (found,) = findings.served_one_by_one(step(V0, None))
        assert found.text == (
            "Requests are served one by one: 16 tokens/s at 1 and 16.4 at 32, where TTFT is 15 s of waiting in line."
        )
        assert list(findings.served_one_by_one(step(V1B, V1))) == []
        scaling = {1: (16.0, 90.0, 60.0), 8: (80.0, 100.0, 70.0)}
        assert list(findings.served_one_by_one(step(V0, None, scaling))) == []


class TestWeights:
    def test_smaller_weights_that_bring_nothing_were_not_the_bound(self) -> None:
        (found,) = findings.weights_are_not_the_bound(step(V3, V2))
        assert found.levels == (1, 8, 32)
        assert found.text == (
            "The weights shrank 2.4 times (269 to 114 MB) and TPOT went from 50 to 53 ms at 1, 80 to 92 ms at 8, 150 "
            "to 220 ms at 32: reading weights is not what a step waits for here. Reading all of them once a step, as "
            "v2 does at 1, takes 5.4 GB/s; unpacking 4 bits takes arithmetic instead."
        )

    def test_where_tpot_fell_they_were_part_of_it(self) -> None:
        # tokens/s stand still at 1, TPOT does not.
        speeds = {1: (19.0, 170.0, 25.0), 8: (200.0, 100.0, 40.0), 32: (360.0, 300.0, 75.0)}
        assert list(findings.weights_are_not_the_bound(step(V3, V2, speeds))) == []

    def test_without_the_weights_nothing_is_claimed(self) -> None:
        unknown = V3.model_copy(update={"weights_bytes": None})
        assert list(findings.weights_are_not_the_bound(step(unknown, V2))) == []

    def test_other_steps_do_not_shrink_weights(self) -> None:
        assert list(findings.weights_are_not_the_bound(step(V2, V1B, SPEEDS["v1b"]))) == []
        assert list(findings.weights_are_not_the_bound(step(V4, V3, SPEEDS["v3"]))) == []


class TestDrafts:
    def test_what_a_step_brings_and_costs(self) -> None:
        found = list(findings.drafts_cost_what_they_bring(step(V4, V3, alike=V2)))
        assert [(finding.levels, finding.kind) for finding in found] == [
            ((1,), "note"),
            ((8,), "note"),
            ((32,), "reason"),
        ]
        # 1.95 tokens a step, 50 / 31 times as fast: a step takes 1.95 / (50 / 31) = 1.209 plain ones.
        assert found[0].text == (
            "At 1: drafts of 3, 32 % of them kept, 1.95 tokens a step. By TPOT a step takes 1.21 times one of v2, so a "
            "token takes 0.62 times as long."
        )

    def test_the_rung_below_will_do_when_it_has_the_same_weights(self) -> None:
        found = list(findings.drafts_cost_what_they_bring(step(V4, V2)))
        assert "times one of v2" in found[0].text

    def test_other_weights_alone_say_nothing_of_drafts(self) -> None:
        assert list(findings.drafts_cost_what_they_bring(step(V4, V3))) == []

    def test_two_changes_at_once_are_told_apart(self) -> None:
        (found,) = findings.other_weights(step(V4, V3, alike=V2))
        assert found.text == (
            'v4 drafts for "models/smollm2-135m-instruct", the weights of v2, and v3 below it serves '
            '"models/smollm2-135m-instruct-awq": what drafting alone brings is the comparison with v2.'
        )
        assert list(findings.other_weights(step(V4, V2))) == []

    @pytest.mark.parametrize(
        ("level", "where"),
        [(20, "short of its break-even at 32"), (32, "at its break-even at 32"), (64, "past its break-even at 32")],
    )
    def test_past_the_golden_interval(self, level: int, where: str) -> None:
        speed = {level: (100.0, 500.0, 100.0)}
        (found,) = findings.outside_golden_interval(step(V4, V2, speed, speed))
        assert found.levels == (level,)
        assert f"outside the golden interval of the profile (best up to 16) and {where}" in found.text

    def test_inside_it_or_with_a_gain_it_is_silent(self) -> None:
        speed = (100.0, 500.0, 100.0)
        assert list(findings.outside_golden_interval(step(V4, V2, {8: speed}, {8: speed}))) == []
        faster = {64: (200.0, 250.0, 50.0)}
        assert list(findings.outside_golden_interval(step(V4, V2, faster, {64: speed}))) == []

    @pytest.mark.parametrize(
        ("faster", "text"),
        [
            (
                {1: 150, 8: 120, 32: 80},
                "Measured, speculation pays up to about 16 streams: it has 1.2 times the tokens/s of v2 at 8, and 0.8 "
                "times at 32.",
            ),
            (
                {1: 150, 8: 120, 32: 110},
                "Measured, speculation pays at every level: v2 has fewer tokens/s up to 32 streams, where the ratio is "
                "1.1.",
            ),
            (
                {1: 90, 8: 80, 32: 70},
                "Measured, speculation does not pay at 1 already: it has 0.9 times the tokens/s of v2.",
            ),
        ],
    )
    def test_the_measured_break_even(self, faster: dict[int, float], text: str) -> None:
        plain = dict.fromkeys(faster, (100.0, 500.0, 100.0))
        drafted = {level: (speed, 500.0, 100.0) for level, speed in faster.items()}
        assert texts(list(findings.measured_break_even(step(V4, V2, drafted, plain)))) == [text]

    def test_two_levels_are_no_curve(self) -> None:
        speed = dict.fromkeys((1, 32), (100.0, 500.0, 100.0))
        assert list(findings.measured_break_even(step(V4, V2, speed, speed))) == []
        assert list(findings.measured_break_even(step(V3, V2))) == []

    def test_an_acceptance_that_the_engine_makes_up_is_a_warning(self) -> None:
        (found,) = findings.acceptance_is_made_up(step(V4.model_copy(update={"synthetic_length": 3.2}), V2))
        assert found.kind == "warning"
        assert found.text.startswith("Synthetic acceptance: the engine keeps 3.2 tokens a step on average")
        assert list(findings.acceptance_is_made_up(step(V4, V2))) == []

    def test_a_smaller_batch_makes_streams_wait(self) -> None:
        (found,) = findings.more_streams_than_places(step(V4, V3))
        assert (found.kind, found.levels) == ("note", (32,))
        assert found.text == (
            "The engine runs 16 requests at once (v3: 64); at 32 streams the others wait, which is in their TTFT."
        )
        assert list(findings.more_streams_than_places(step(V3, V2))) == []


def test_memory_that_is_reserved_is_said_at_the_first_rung_that_does() -> None:
    (found,) = findings.memory_is_reserved(step(V2, V1B))
    assert found.text == "Its memory is reserved before the first request: 1 GiB of KV cache, in use or not."
    assert list(findings.memory_is_reserved(step(V3, V2))) == []


def test_a_client_that_fell_behind_is_a_warning() -> None:
    lagging = step(V0, None, saturated=("requests were sent 40 ms late",))
    found = list(findings.client_fell_behind(lagging))
    assert {finding.kind for finding in found} == {"warning"}
    assert found[0].text == "At 1 the load generator did not keep up: requests were sent 40 ms late."
    assert list(findings.client_fell_behind(step(V0, None))) == []


def test_what_a_time_limit_cut_off_is_said_with_what_it_is_in() -> None:
    cut = figures(16.0, 90.0, 60.0, requests=3).model_copy(update={"cut": 31})
    found = list(findings.time_limit_cut(step(V0, None, {32: (16.0, 90.0, 60.0)}, figures=cut)))
    assert [finding.kind for finding in found] == ["note"]
    assert found[0].text == (
        "At 32 the time limit cut 93 requests off: tokens/s has the tokens they had received, the latencies are of the "
        "9 that were answered by then, and those of all would be longer."
    )
    assert list(findings.time_limit_cut(step(V0, None))) == []


def test_what_no_rule_explains_is_said_to_be_unexplained() -> None:
    slower = {level: (speed / 2, 2 * ttft, 2 * tpot) for level, (speed, ttft, tpot) in SPEEDS["v1b"].items()}
    found = findings_of(step(V2, V1B, slower))
    assert "Why tokens/s did not rise at 8 and 32 these figures do not say." in texts(found)
    assert not any("these figures do not say" in text for text in texts(findings_of(step(V2, V1B))))
    assert not any("these figures do not say" in text for text in texts(findings_of(step(V3, V2))))


def test_the_outcome_comes_first_and_reasons_before_notes() -> None:
    kinds = [finding.kind for finding in findings_of(step(V4, V3, alike=V2))]
    assert kinds[:2] == ["gain", "gain"]
    assert kinds.index("reason") < len(kinds) - 1 - kinds[::-1].index("note")
