"""The rungs of a profile, and the facts that explain their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reporting.examples import PROFILE, RUNGS, SIZES, V2, V3, V4
from tools.bootstrap.layout import Layout
from tools.planning.architecture import Architecture
from tools.reporting.errors import ReportError
from tools.reporting.rungs import ModelSizes, rungs_of, same_weights_below, sizes_of
from tools.spec.loading import load_profile


def test_the_default_profile_serves_every_rung_lowest_first(tmp_path: Path) -> None:
    rungs = rungs_of(PROFILE, Layout(tmp_path))
    assert [(rung.label, rung.target) for rung in rungs] == [
        ("v0", "llm_baseline:1"),
        ("v1", "llm_baseline:2"),
        ("v1b", "llm_baseline:3"),
        ("v2", "llm_bf16:1"),
        ("v3", "llm_awq:1"),
        ("v4", "llm_eagle:1"),
    ]
    assert [rung.batch for rung in rungs] == [1, 1, 8, 64, 64, 16]
    assert [rung.draft_tokens for rung in rungs] == [0, 0, 0, 0, 0, 3]
    assert {rung.synthetic_length for rung in rungs} == {None}
    assert [rung.quantised for rung in rungs] == [False, False, False, False, True, False]
    assert [rung.attention for rung in rungs[:3]] == ["eager", "flash_attention_2", "flash_attention_2"]
    assert rungs[3].reserved_memory == "1 GiB of KV cache"


def test_weights_are_measured_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "models/smollm2-135m-instruct"
    folder.mkdir(parents=True)
    for name in ("model-1.safetensors", "model-2.safetensors"):
        (folder / name).write_bytes(b"x" * 500)
    rungs = rungs_of(PROFILE, Layout(tmp_path))
    assert [rung.weights_bytes for rung in rungs] == [1000, 1000, 1000, 1000, None, 1000]


def test_only_the_wanted_rungs_in_the_ladders_order(tmp_path: Path) -> None:
    assert [rung.label for rung in rungs_of(PROFILE, Layout(tmp_path), ("v4", "v2"))] == ["v2", "v4"]


def test_a_rung_that_the_profile_does_not_serve_is_named_with_those_it_does(tmp_path: Path) -> None:
    gpu = load_profile("h200-llama2-7b")
    with pytest.raises(ReportError, match='"h200-llama2-7b" serves no rung "v3": it has v0, v1, v1b, v2'):
        rungs_of(gpu, Layout(tmp_path), ("v3",))


def test_a_version_that_is_not_loaded_is_no_rung(tmp_path: Path) -> None:
    baseline = PROFILE.variants["llm_baseline"].model_copy(update={"load_versions": (1, 3)})
    profile = PROFILE.model_copy(update={"variants": {**PROFILE.variants, "llm_baseline": baseline}})
    assert [rung.label for rung in rungs_of(profile, Layout(tmp_path))][:3] == ["v0", "v1b", "v2"]


def test_a_rung_that_drafts_is_held_against_its_own_weights_without_drafts() -> None:
    assert same_weights_below(V4, RUNGS) == V2
    assert same_weights_below(V3, RUNGS) is None
    assert same_weights_below(V4, [V3, V4]) is None


def test_sizes_come_from_the_profile_before_there_are_weights(tmp_path: Path) -> None:
    sizes = sizes_of(PROFILE, Layout(tmp_path))
    # 30 layers of q, k, v, o, gate, up and down, and the output matrix, which is the embedding.
    layer = 576 * (576 + 2 * 192) + 576 * 576 + 3 * 576 * 1536
    assert sizes == ModelSizes(matrix_weights=30 * layer + 576 * 49152, layers=30, attention_width=576)


def test_attentions_share_grows_with_the_context() -> None:
    # By hand: 30 * 2 * 66 * 576 = 2.28 million of 136.28 million multiplications.
    assert SIZES.attention_percent(66) == pytest.approx(1.674, abs=0.001)
    assert SIZES.attention_percent(8000) > 50


def test_sizes_of_an_architecture_count_the_output_matrix_once() -> None:
    tiny = Architecture(
        hidden_size=4,
        intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=2,
        vocab_size=10,
        tie_word_embeddings=True,
    )
    layer = 4 * (4 + 2 * 2) + 4 * 4 + 3 * 4 * 8
    assert ModelSizes.of(tiny) == ModelSizes(matrix_weights=2 * layer + 40, layers=2, attention_width=4)


def test_an_acceptance_length_that_the_engine_makes_up_is_known(tmp_path: Path) -> None:
    profile = load_profile(str(Layout.of_this_checkout().home / "tools/benchmark/campaigns/h200-llama2-7b-dummy.yaml"))
    (v4,) = rungs_of(profile, Layout(tmp_path), ("v4",))
    assert (v4.draft_tokens, v4.synthetic_length) == (5, 3.2)
