"""The estimates against start-up logs of vLLM that were published."""

from __future__ import annotations

import pytest

from tests.planning.examples import LLAMA_2_7B, SMOLLM2
from tools.planning.architecture import Architecture
from tools.planning.overheads import activation_bytes, graph_bytes, prefill_bytes
from tools.planning.units import GIB

LLAMA_3_8B = Architecture(4096, 14336, 32, 32, 8, 128, 128256, False)


def test_the_sampler_of_llama_3_8b_peaks_as_a_log_says() -> None:
    """ "PyTorch activation peak memory 1.26GiB", on one GPU and on two."""
    for degree in (1, 2):
        peak = activation_bytes(
            LLAMA_3_8B, batched_tokens=8192, sequences=256, dtype="bfloat16", tensor_parallel=degree
        )
        assert peak / GIB == pytest.approx(1.26, rel=0.05)


def test_a_large_batch_peaks_in_the_mlp() -> None:
    peak = activation_bytes(LLAMA_2_7B, batched_tokens=16384, sequences=16, dtype="bfloat16", tensor_parallel=1)
    assert peak == 16384 * (3 * 4096 + 3 * 11008) * 2


def test_graphs_are_those_that_vllm_lists() -> None:
    """ "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)"."""
    quarter = GIB // 4096
    assert graph_bytes(1, 256) == (51 + 35) * quarter


@pytest.mark.parametrize(("sequences", "graphs"), [(1, 2 + 1), (2, 3 + 2), (16, 7 + 5), (1024, 51 + 51)])
def test_the_number_of_graphs_follows_max_num_seqs(sequences: int, graphs: int) -> None:
    assert graph_bytes(4, sequences) == graphs * 4 * (GIB // 4096)


def test_eager_attention_pays_for_the_square_of_the_context() -> None:
    eager, sdpa = (
        prefill_bytes(SMOLLM2, sequences=1, context=8192, dtype="bfloat16", attention=attention, cache=0)
        for attention in ("eager", "sdpa")
    )
    assert eager == 9 * 8192**2 * 8
    assert sdpa == 8192 * (3 * 576 + 3 * 1536) * 2


def test_appending_copies_one_layers_cache() -> None:
    without, with_cache = (
        prefill_bytes(SMOLLM2, sequences=1, context=64, dtype="bfloat16", attention="sdpa", cache=cache)
        for cache in (0, 30_000)
    )
    assert with_cache - without == 1000
