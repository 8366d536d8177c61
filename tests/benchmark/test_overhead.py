from __future__ import annotations

import pytest

from tools.benchmark import overhead
from tools.benchmark.machine import Machine
from tools.benchmark.overhead import OverheadReport, OverheadSettings, measure_pairs, overhead_figures
from tools.benchmark.workload import Load, Tally

SETTINGS = OverheadSettings(
    profile="cpu-smollm2", model="llm_bf16", streams=(1, 4), tokens=64, prompt_tokens=50, repeats=3
)
VOCABULARY = 1000


class Side:
    """One of the two; every measurement takes longer than the one before, as on a machine that slows down."""

    def __init__(self, name: str, order: list[tuple[str, Load]], slower: float = 1.0, ttft_s: float = 0.02) -> None:
        self._name = name
        self._order = order
        self._slower = slower
        self._ttft_s = ttft_s

    def __call__(self, load: Load) -> Tally:
        self._order.append((self._name, load))
        seconds = (1 + len(self._order) // 2) * self._slower
        ttft = tuple(self._ttft_s * (1 + i) for i in range(load.streams))
        return Tally(seconds=seconds, tokens=load.streams * load.tokens, responses=load.tokens, ttft_s=ttft)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "_PAUSE_S", 0.0)


def test_pairs_alternate_after_a_warm_up_of_each_concurrency() -> None:
    order: list[tuple[str, Load]] = []
    measure_pairs(SETTINGS, VOCABULARY, Side("bare", order), Side("served", order), lambda _: None)
    # Each repeat has at least 8 requests on either side.
    one = 2 * [("bare", 1), ("served", 1), ("served", 1), ("bare", 1)]
    four = [("bare", 4), ("served", 4), ("served", 4), ("bare", 4)]
    warm_up = [("bare", 1), ("served", 1), ("bare", 4), ("served", 4)]
    assert [(name, load.streams) for name, load in order] == warm_up + 3 * (2 * one + four)


def test_the_two_of_a_pair_get_the_same_prompts_and_no_other_pair_does() -> None:
    order: list[tuple[str, Load]] = []
    measure_pairs(SETTINGS, VOCABULARY, Side("bare", order), Side("served", order), lambda _: None)
    loads = [load for _, load in order]
    assert all(first == second for first, second in zip(loads[::2], loads[1::2], strict=True))
    prompts = [prompt for load in loads[::2] for prompt in load.prompts]
    assert len(set(prompts)) == len(prompts) == (1 + 4) + 3 * (8 * 1 + 2 * 4)
    assert all(len(prompt) == 50 and 256 <= min(prompt) <= max(prompt) < VOCABULARY for prompt in prompts)
    again: list[tuple[str, Load]] = []
    measure_pairs(SETTINGS, VOCABULARY, Side("bare", again), Side("served", again), lambda _: None)
    assert again == order


def test_ratio_and_added_ttft_are_taken_pair_by_pair() -> None:
    order: list[tuple[str, Load]] = []
    bare, served = Side("bare", order), Side("served", order, slower=1.25, ttft_s=0.024)
    one, four = measure_pairs(SETTINGS, VOCABULARY, bare, served, lambda _: None)
    assert one.streams == 1
    # The machine slows down from pair to pair, the ratio hardly moves: between two halves of a pair it slows down too.
    assert one.bare_tokens_per_s.low < 0.5 * one.bare_tokens_per_s.high
    assert 0.6 <= one.ratio.low <= one.ratio.high <= 1.0
    # Either side is the slower one in every second pair.
    assert one.ratio.median == pytest.approx(1 / 1.25)
    assert one.added_ttft_ms.median == pytest.approx(4.0)
    # Of four requests at 20, 40, 60 and 80 ms the median is 50.
    assert four.bare_ttft_ms.median == pytest.approx(50.0)
    assert four.served_ttft_ms.median == pytest.approx(60.0)
    assert four.added_ttft_ms.values == pytest.approx([10.0] * 6)


def test_a_tiny_vocabulary_still_has_ordinary_tokens() -> None:
    order: list[tuple[str, Load]] = []
    measure_pairs(SETTINGS, 100, Side("bare", order), Side("served", order), lambda _: None)
    assert {token for _, load in order for prompt in load.prompts for token in prompt} == {99}


def test_the_table_has_both_sides_the_ratio_and_the_machine() -> None:
    order: list[tuple[str, Load]] = []
    rows = measure_pairs(SETTINGS, VOCABULARY, Side("bare", order), Side("served", order), lambda _: None)
    machine = Machine(
        cpu="AMD EPYC", cores=2, memory_gib=24, gpus=(), system="Linux", load_before=0.1, versions={"vllm": "0.23.0"}
    )
    report = OverheadReport(machine=machine, settings=SETTINGS, engine_arguments={"model": "m"}, rows=rows)
    text = overhead_figures(report).to_markdown()
    assert text.startswith("**llm_bf16: the bare engine, and the same engine through Triton**")
    assert (
        "| streams | bare tokens/s | Triton tokens/s | ratio | bare TTFT ms | Triton TTFT ms | added TTFT ms |" in text
    )
    assert "| 1 | " in text
    assert 'Profile "cpu-smollm2", 50 prompt and 64 output tokens, greedy' in text
    assert "vllm 0.23.0" in text
