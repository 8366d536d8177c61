"""The published figures beside a report's own, and why their ratios differ."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.reporting.examples import MACHINE, RUNGS, SETTINGS, V4, cell, cells, report
from tools.reporting.document import document
from tools.reporting.markdown import to_markdown
from tools.reporting.model import Report
from tools.reporting.published import A100, ClaimedGain, claimed_gains
from tools.reporting.rungs import ModelSizes
from tools.reporting.server_metrics import Drafting

H200 = MACHINE.model_copy(update={"gpus": ("NVIDIA H200, driver 580",)})
LLAMA = ModelSizes(matrix_weights=6_600_000_000, layers=32, attention_width=4096)
# tokens/s, TTFT ms, TPOT ms
SPEEDS: Mapping[str, Mapping[int, tuple[float, float, float]]] = {
    "v0": {1: (21.5, 59, 46.5), 32: (21.5, 20_000, 46.5)},
    "v1": {1: (33.7, 36, 29.6), 32: (33.7, 20_000, 29.6)},
    "v1b": {1: (33.7, 36, 29.6)},
    "v2": {1: (219, 9, 4.4), 32: (4614, 90, 6.5)},
    "v3": {1: (264, 9, 3.76), 32: (5148, 90, 6.0)},
    "v4": {1: (364, 15, 2.7), 32: (7496, 90, 4.0), 64: (9502, 150, 6.0)},
}


def on_h200(**changes: object) -> Report:
    rungs = [facts.model_copy(update={"batch": 256}) if facts == V4 else facts for facts in RUNGS]
    drafting = Drafting(drafts=100, drafted=500, accepted=220)
    made = [
        cell(label, level, 1, speed, drafting=drafting if label == "v4" else Drafting())
        for label, speeds in SPEEDS.items()
        for level, speed in speeds.items()
    ]
    settings = SETTINGS.model_copy(update={"levels": (1, 32, 64), "repeats": 1, "output_tokens": 256})
    whole = {"accelerator": "cuda", "machine": H200, "sizes": LLAMA, "settings": settings, **changes}
    return report(made, rungs, **whole)


def found(made: Report) -> dict[tuple[str, str, int], ClaimedGain]:
    return {(gain.above, gain.figure, gain.level): gain for gain in claimed_gains(made)}


def test_a_gain_is_how_many_times_better_both_ways() -> None:
    gains = found(on_h200())
    attention = gains["v1", "tpot_ms", 1]
    assert (attention.claimed, attention.ours) == (pytest.approx(40 / 28), pytest.approx(46.5 / 29.6))
    batching = gains["v2", "tokens_per_s", 32]
    # One request at a time is as fast with 32 streams as with one.
    assert (batching.claimed, batching.ours) == (pytest.approx(1100 / 36), pytest.approx(4614 / 33.7))
    assert ("v4", "tokens_per_s", 64) not in gains, "v3 was not measured there"


def test_what_is_about_the_same_needs_no_reason() -> None:
    assert found(on_h200())["v1", "tpot_ms", 1].why == "as published"


def test_attention_cannot_bring_more_than_it_takes() -> None:
    why = found(on_h200())["v1", "ttft_ms", 1].why
    assert why == "at 306 tokens of context attention is 1.2 % of a token's multiplications"


def test_throughput_is_taken_apart_into_one_stream_and_more_of_them() -> None:
    assert found(on_h200())["v2", "tokens_per_s", 32].why == (
        "here 6.5× with one stream; from 1 to 32 streams v2 becomes 21.1× as fast, v1 1×; "
        "there 1.39× with one stream; from 1 to 32 streams v2 becomes 22× as fast, v1 1×"
    )


def test_a_token_is_held_against_reading_the_weights_once() -> None:
    # 13.2 GB at 4.8 TB/s take 2.75 ms here, at 1.555 TB/s 8.5 ms there.
    assert found(on_h200())["v3", "tpot_ms", 1].why == (
        "a token of v2 takes 1.6 times what reading its weights takes at this card's bandwidth (there 2.4 times); "
        "a token of v3 takes 5.3 times what reading its weights takes at this card's bandwidth (there 6.3 times)"
    )
    unknown = MACHINE.model_copy(update={"gpus": ("Some other card",)})
    assert found(on_h200(machine=unknown))["v3", "tpot_ms", 1].why == "these figures do not say"


def test_drafts_are_explained_by_their_length_and_cost() -> None:
    why = found(on_h200())["v4", "tpot_ms", 1].why
    assert why.endswith("; here 3.20 tokens a step, which takes 2.30 times one without drafts")


def test_a_gpus_report_has_them_beside_its_own_and_a_cpus_has_not() -> None:
    text = to_markdown(document(on_h200(), ()))
    assert "## Beside the published A100 40 GB figures" in text
    assert "| v2 | 9.00 | 200 | 4.40 | 20.0 | 4,614 | 1,100 | – | 720 |" in text
    assert "| v1 → v2 | tokens/s at 32 streams | 30.6× | 137× | here 6.5× with one stream" in text
    assert "Beside the published" not in to_markdown(document(report(cells()), ()))


def test_only_medians_with_one_stream_were_published_beside_throughput() -> None:
    assert A100["v2"].value("tpot_ms", 32) is None
    assert A100["v2"].value("e2e_ms", 1) is None
