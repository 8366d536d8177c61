"""The memory plan against the engine that runs: what vLLM says at load of its KV cache."""

from __future__ import annotations

import re

import pytest

from tests.e2e.deployment import Deployment
from tools.bootstrap.layout import Layout
from tools.planning.devices import device_of
from tools.planning.engines import engines_of
from tools.planning.plan import EnginePlan, plan_memory
from tools.spec.loading import load_profile

MODEL = "llm_bf16:1"


@pytest.fixture
def planned() -> EnginePlan:
    profile = load_profile()
    device = device_of(None, profile.target)
    engines = engines_of(profile, Layout.of_this_checkout().home, device.accelerator)
    return next(engine for engine in plan_memory(profile.name, engines, device).engines if engine.label == MODEL)


def test_the_planned_kv_cache_is_the_one_that_vllm_made(server: Deployment, planned: EnginePlan) -> None:
    [blocks] = re.findall(rf"\[{MODEL}\] vllm \S+ ready: .*?(\d+) KV cache blocks\)", server.log)
    tokens = int(blocks) * 128  # vLLM's block on CPU
    assert planned.kv_cache_tokens == pytest.approx(tokens, rel=0.05)


def test_the_planned_concurrency_is_the_one_that_vllm_prints(server: Deployment, planned: EnginePlan) -> None:
    """Its log does not say which engine prints: one of them must be this one, to a sequence."""
    printed = re.findall(
        r"KV cache size: ([\d,]+) tokens, Maximum concurrency for 2,048 tokens .*?: ([\d.]+)x", server.log
    )
    found = [float(times) for tokens, times in printed if int(tokens.replace(",", "")) == planned.kv_cache_tokens]
    assert found
    assert all(0 <= times - planned.sequences < 2 for times in found)
