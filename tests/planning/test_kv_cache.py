from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.planning.examples import LLAMA_2_7B, SMOLLM2, architectures
from tools.planning.architecture import Architecture
from tools.planning.kv_cache import KvCache
from tools.planning.units import GIB, MIB


def cache(
    sizes: Architecture = LLAMA_2_7B, block_tokens: int = 16, draft_layers: int = 0, tensor_parallel: int = 1
) -> KvCache:
    return KvCache.of(
        sizes,
        element_bytes=2,
        block_tokens=block_tokens,
        draft_layers=draft_layers,
        tensor_parallel=tensor_parallel,
    )


def test_a_token_of_llama_2_7b_takes_half_a_mebibyte() -> None:
    assert cache().token_bytes == MIB // 2


def test_a_gibibyte_on_cpu_holds_what_vllm_printed_for_smollm2() -> None:
    """vLLM 0.32: "CPU KV cache size: 46,592 tokens, Maximum concurrency for 2,048 tokens per request: 22.75x"."""
    found = cache(SMOLLM2, block_tokens=128)
    assert found.blocks(GIB) == 364
    assert found.tokens(GIB) == 46_592
    assert found.sequences(GIB, 2048) == 22


def test_a_published_log_of_a_7b_llama_is_met() -> None:
    """vLLM on an 80 GB GPU: "the rest of the memory reserved for KV Cache is 56.18GiB", "# cuda blocks: 7191"."""
    assert abs(cache().blocks(int(56.18 * GIB)) - 7191) <= 1


def test_a_draft_layer_caches_too() -> None:
    assert cache(draft_layers=1).token_bytes * 32 == cache().token_bytes * 33


def test_kv_heads_are_split_and_copied_when_there_are_too_few() -> None:
    grouped = Architecture(4096, 14336, 32, 32, 8, 128, 128256, False)
    per_gpu = [cache(grouped, tensor_parallel=degree).token_bytes for degree in (1, 2, 8, 16)]
    assert per_gpu == [128 * 1024, 64 * 1024, 16 * 1024, 16 * 1024]


def test_a_sequence_holds_whole_blocks_and_one_block_is_never_given_out() -> None:
    found = cache()
    assert found.sequences(3 * found.block_bytes, 17) == 1
    assert found.sequences(3 * found.block_bytes - 1, 17) == 0
    assert found.sequences(3 * found.block_bytes, 16) == 2


def test_less_than_nothing_holds_nothing() -> None:
    assert (cache().tokens(-GIB), cache().sequences(-GIB, 1)) == (0, 0)


@given(architectures, st.integers(0, 1 << 40), st.integers(0, 1 << 36), st.integers(1, 32768))
def test_more_memory_never_holds_fewer_sequences(sizes: Architecture, available: int, more: int, context: int) -> None:
    found = cache(sizes)
    assert found.sequences(available + more, context) >= found.sequences(available, context)


@given(architectures, st.integers(0, 1 << 40), st.integers(1, 32768), st.integers(0, 4096))
def test_longer_sequences_are_never_more(sizes: Architecture, available: int, context: int, longer: int) -> None:
    found = cache(sizes)
    assert found.sequences(available, context + longer) <= found.sequences(available, context)


@given(architectures, st.integers(1, 512), st.integers(1, 32768))
def test_bytes_for_is_the_least_that_holds_them(sizes: Architecture, sequences: int, context: int) -> None:
    found = cache(sizes)
    needed = found.bytes_for(sequences, context)
    assert found.sequences(needed, context) == sequences
    assert found.sequences(needed - 1, context) < sequences
