"""Models and engines that the tests plan for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from tools.planning.architecture import Architecture
from tools.planning.engines import Engine
from tools.spec.profile import Profile

PROFILES: Final = Path(__file__).parents[2] / "tools" / "spec" / "profiles"

LLAMA_2_7B: Final = Architecture(4096, 11008, 32, 32, 32, 128, 32000, False)
SMOLLM2: Final = Architecture(576, 1536, 30, 9, 3, 64, 49152, True)

ENGINE: Final = Engine(
    model="llm_bf16",
    version=1,
    architecture=LLAMA_2_7B,
    dtype="bfloat16",
    group_size=None,
    draft=None,
    kv_element_bytes=2,
    block_tokens=16,
    max_model_len=4096,
    sequences=64,
    batched_tokens=2048,
    eager=False,
    attention="paged",
    share=0.5,
    share_is_default=False,
    kv_space=None,
    tensor_parallel=1,
)

BASELINE: Final = replace(
    ENGINE, model="llm_baseline", block_tokens=None, sequences=8, attention="sdpa", eager=True, share=None
)

architectures = st.builds(
    Architecture,
    hidden_size=st.integers(1, 64).map(lambda n: n * 128),
    intermediate_size=st.integers(1, 96).map(lambda n: n * 128),
    num_hidden_layers=st.integers(1, 80),
    num_attention_heads=st.sampled_from([8, 16, 32, 64]),
    num_key_value_heads=st.sampled_from([1, 2, 4, 8]),
    head_dim=st.sampled_from([64, 128]),
    vocab_size=st.integers(1, 2000).map(lambda n: n * 64),
    tie_word_embeddings=st.booleans(),
)


@st.composite
def engines(draw: st.DrawFn) -> Engine:
    """vLLM engines with a share, and baselines."""
    engine = replace(
        draw(st.sampled_from([ENGINE, BASELINE])),
        architecture=draw(architectures),
        version=draw(st.integers(1, 9)),
        group_size=draw(st.sampled_from([None, 64, 128])),
        max_model_len=draw(st.integers(1, 16384)),
        sequences=draw(st.integers(1, 300)),
    )
    return replace(engine, share=draw(st.floats(0.01, 1.0))) if engine.is_vllm else engine


def profile(name: str, **variant_changes: Any) -> Profile:
    """A shipped profile; `variant_changes` set engine arguments of version 1 of a variant."""
    data = yaml.safe_load((PROFILES / f"{name}.yaml").read_text(encoding="utf-8"))
    for variant, arguments in variant_changes.items():
        versions = data["variants"][variant]["versions"]
        versions[1] = {**versions[1], **arguments}
    return Profile.model_validate(data)
