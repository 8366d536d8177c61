from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.engine.errors import LaunchError
from tools.engine.generation import loading
from tools.engine.generation.arguments import BaselineArguments
from tools.engine.generation.loading import choose_attention, load, usable_cpus


def arguments(**changes: Any) -> BaselineArguments:
    complete = {"model": "m", "attention": "flash_attention_2", "batching": False, "max_model_len": 64}
    return BaselineArguments(**complete | changes)


@pytest.fixture
def _flash_attn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if flash-attn were installed."""
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: found if name == "flash_attn" else None)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_eager_and_sdpa_are_taken_as_named(attention: Any) -> None:
    assert choose_attention(arguments(attention=attention), "cpu") == (attention, "")


@pytest.mark.usefixtures("_flash_attn")
def test_flash_attention_runs_where_it_can() -> None:
    assert choose_attention(arguments(), "cuda") == ("flash_attention_2", "")


@pytest.mark.usefixtures("_flash_attn")
def test_without_a_gpu_it_is_sdpa_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert choose_attention(arguments(), "cpu") == ("sdpa", "instead of flash_attention_2: there is no CUDA device")
    assert 'attention is "sdpa", not "flash_attention_2": there is no CUDA device' in caplog.text


def test_without_the_package_it_is_sdpa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda _: None)
    chosen = choose_attention(arguments(), "cuda")
    assert chosen == ("sdpa", "instead of flash_attention_2: flash-attn is not installed")


@pytest.mark.usefixtures("_flash_attn")
def test_in_float32_it_is_sdpa() -> None:
    chosen = choose_attention(arguments(dtype="float32"), "cuda")
    assert chosen == ("sdpa", "instead of flash_attention_2: flash-attn takes no float32")


def test_sdpa_makes_no_plan_for_every_length(model_folder: Path) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    load(arguments(model=str(model_folder), attention="sdpa"))
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()


def test_a_loaded_model_has_the_dtype_and_says_how_it_runs(model_folder: Path) -> None:
    loaded = load(arguments(model=str(model_folder)))
    assert loaded.model.dtype is torch.bfloat16
    assert loaded.model.config._attn_implementation == "sdpa"
    assert loaded.attention.startswith("sdpa (instead of flash_attention_2: ")
    assert loaded.vocab_size == len(loaded.tokenizer)
    assert loaded.eos_ids == {loaded.tokenizer.eos_token_id}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f'model folder "{tmp_path}/none" does not exist .*: make the model artifact'):
        load(arguments(model=f"{tmp_path}/none"))


def test_a_folder_without_weights_is_named(chatml_folder: Path) -> None:
    with pytest.raises(LaunchError, match=f'the model in "{chatml_folder}" cannot be loaded: '):
        load(arguments(model=str(chatml_folder)))


def test_a_context_longer_than_the_models_is_refused(model_folder: Path) -> None:
    with pytest.raises(LaunchError) as refused:
        load(arguments(model=str(model_folder), max_model_len=257))
    assert str(refused.value) == f'"max_model_len" is 257: the model in "{model_folder}" has 256 positions'


def test_at_least_one_processor_and_no_more_than_allowed() -> None:
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))
