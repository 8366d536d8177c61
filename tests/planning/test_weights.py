"""Known sizes of published models, and the files that real checkpoints have."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from tests.planning.examples import LLAMA_2_7B, SMOLLM2, architectures
from tools.planning.architecture import Architecture
from tools.planning.units import GIB
from tools.planning.weights import Draft, awq_bytes, count, draft_bytes, unquantised_bytes


def test_llama_2_7b_has_its_published_size() -> None:
    assert count(LLAMA_2_7B).total == 6_738_415_616
    assert unquantised_bytes(LLAMA_2_7B, "bfloat16") == 13_476_831_232


def test_llama_2_7b_in_4_bits_takes_3_9_gb() -> None:
    assert awq_bytes(LLAMA_2_7B, 128, "float16") / 1e9 == pytest.approx(3.89, abs=0.01)


def test_smaller_groups_have_more_scales() -> None:
    scales = LLAMA_2_7B.num_hidden_layers * (4 * 4096**2 + 3 * 4096 * 11008) // 128 * 5 // 2
    assert awq_bytes(LLAMA_2_7B, 64, "float16") - awq_bytes(LLAMA_2_7B, 128, "float16") == scales


def test_smollm2_has_its_published_size() -> None:
    assert count(SMOLLM2).total == 134_515_008


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_builds_as_many_weights(tied: bool) -> None:
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        vocab_size=320,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    sizes = Architecture(64, 160, 3, 4, 2, 24, 320, tied)
    assert count(sizes).total == sum(weight.numel() for weight in model.parameters())


def test_an_eagle3_head_of_a_7b_model_takes_less_than_a_gibibyte_not_14_gb() -> None:
    """The tensors as facts of the format list them: fc, q k v o, MLP, norms, output, d2t."""
    weights = 3 * 4096**2 + 3 * 2 * 4096**2 + 4096**2 + 3 * 4096 * 11008 + 4 * 4096 + 32000 * 4096
    head = draft_bytes(LLAMA_2_7B, Draft("eagle3", 32000), "float16")
    assert head == 2 * weights + 8 * 32000
    assert head < GIB


def test_an_eagle_head_shares_the_output_matrix() -> None:
    weights = 2 * 4096**2 + 4 * 4096**2 + 3 * 4096 * 11008 + 4 * 4096
    assert draft_bytes(LLAMA_2_7B, Draft("eagle", 32000), "bfloat16") == 2 * weights


def test_two_gpus_hold_half_of_everything_but_the_norms() -> None:
    one, two = count(LLAMA_2_7B), count(LLAMA_2_7B, 2)
    assert (two.linear, two.embedding, two.output) == (one.linear // 2, one.embedding // 2, one.output // 2)
    assert two.norms == one.norms


def test_fewer_kv_heads_than_gpus_are_copied() -> None:
    sizes = Architecture(1024, 2048, 1, 8, 2, 128, 64, True)
    keys_and_values = 2 * 1024 * 128
    assert count(sizes, 8).linear == (2 * 1024 * 1024 + 3 * 1024 * 2048) // 8 + keys_and_values


@given(architectures, st.sampled_from([32, 64, 128]))
def test_four_bits_are_never_more_than_sixteen(sizes: Architecture, group_size: int) -> None:
    assert awq_bytes(sizes, group_size, "float16") < unquantised_bytes(sizes, "float16")


@given(architectures)
def test_the_parts_sum_to_the_whole(sizes: Architecture) -> None:
    counts = count(sizes)
    assert counts.total == counts.linear + counts.norms + counts.embedding + counts.output
    assert unquantised_bytes(sizes, "float32") == 4 * counts.total


@given(architectures)
def test_more_gpus_never_hold_more_each(sizes: Architecture) -> None:
    held = [unquantised_bytes(sizes, "bfloat16", degree) for degree in (1, 2, 4, 8)]
    assert held == sorted(held, reverse=True)


@pytest.mark.e2e
def test_the_embedded_models_file_is_as_large_as_counted() -> None:
    file = Path(__file__).parents[2] / "models" / "smollm2-135m-instruct" / "model.safetensors"
    header = 64 * 1024
    assert 0 < file.stat().st_size - unquantised_bytes(SMOLLM2, "bfloat16") < header
