"""Models that only tests load: the rendered ones in float32, with small limits, or with a mock engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from tests.e2e import lora_adapter
from tools.rendering.plan import MODEL_REPOSITORY, rendered_files
from tools.spec.profile import Profile

# vLLM with as few places as a test can fill, and a queue as short; its worker is a process of its own.
FLOAT32 = "llm_float32"
FLOAT32_PLACES = 4
FLOAT32_MAX_WAITING = 6
FLOAT32_CONTEXT = 256
BASELINE_FLOAT32 = "llm_baseline_float32"
# A mock with one place (and the one the engine keeps filled behind it).
SLOW_MOCK = "mock_slow"
SLOW_MOCK_STEP_S = 0.05
SLOW_MOCK_RUNNING = 2
SLOW_MOCK_MAX_WAITING = 8
# A mock with a deadline of its own, too short for a long answer.
BRIEF_MOCK = "mock_brief"
BRIEF_MOCK_DEADLINE_MS = 500
# A mock whose engine process ends after so many tokens, every time.
DYING_MOCK = "mock_dying"
DYING_MOCK_TOKENS = 20

# vLLM with two adapters: one that changes nothing, one that changes every answer.
LORA = "llm_lora"
LORA_IDLE, LORA_STRONG = "idle", "strong"
# The chat model as an embedder: the last token's hidden state.
EMBEDDER = "llm_embedder"
# More tokens than any test waits for.
ENDLESS_TOKENS = 100_000
_MOCK = {"ENGINE_ADAPTER": "mock", "MAX_TOKENS_LIMIT": str(ENDLESS_TOKENS)}


def write(root: Path, home: Path, profile: Profile) -> None:
    """Write the repository, the profile's own models with what is different here. Unchanged files stay untouched.

    `home` is where the profile's relative paths begin; its artifacts have been made.
    """
    rendered = rendered_files(profile)
    arguments = json.loads(rendered[MODEL_REPOSITORY / "llm_bf16" / "1" / "model.json"])
    limits = {"MAX_WAITING_REQUESTS": str(FLOAT32_MAX_WAITING)}
    float32 = {"dtype": "float32", "max_num_seqs": FLOAT32_PLACES, "max_model_len": FLOAT32_CONTEXT}
    _vllm(root / FLOAT32, rendered, limits, arguments | float32 | {"distributed_executor_backend": "mp"})
    _vllm(
        root / SLOW_MOCK,
        rendered,
        _MOCK | {"MAX_WAITING_REQUESTS": str(SLOW_MOCK_MAX_WAITING)},
        {"max_num_seqs": 1, "step_s": SLOW_MOCK_STEP_S},
    )
    _vllm(
        root / BRIEF_MOCK,
        rendered,
        _MOCK | {"DEFAULT_DEADLINE_MS": str(BRIEF_MOCK_DEADLINE_MS)},
        {"step_s": SLOW_MOCK_STEP_S},
    )
    _vllm(root / DYING_MOCK, rendered, _MOCK, {"die_after_tokens": DYING_MOCK_TOKENS, "step_s": 0.02})
    _baseline(root / BASELINE_FLOAT32, rendered)
    _vllm(root / LORA, rendered, {}, arguments | {"enable_lora": True, "max_loras": 2, "max_lora_rank": 8})
    adapters = {name: str(root / LORA / name) for name in (LORA_IDLE, LORA_STRONG)}
    checkpoint = home / profile.artifacts.bf16.path
    for name, strength in ((LORA_IDLE, 0.0), (LORA_STRONG, 1.0)):
        lora_adapter.write(Path(adapters[name]), checkpoint, strength)
    _write(root / LORA / "1" / "multi_lora.json", json.dumps(adapters, indent=2) + "\n")
    embedder = {"model": arguments["model"], "runner": "pooling", "convert": "embed", "enforce_eager": True}
    _vllm(root / EMBEDDER, rendered, {}, float32 | embedder)


def _vllm(
    folder: Path, rendered: Mapping[PurePosixPath, str], parameters: Mapping[str, str], arguments: Mapping[str, Any]
) -> None:
    config = rendered[MODEL_REPOSITORY / "llm_bf16" / "config.pbtxt"]
    # Entries of a map that stand further down replace those above.
    added = "".join(
        f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}\n' for name, value in parameters.items()
    )
    _write(folder / "config.pbtxt", _renamed(config, "llm_bf16", folder.name) + added)
    _write(folder / "1" / "model.json", json.dumps(arguments, indent=2) + "\n")


def _baseline(folder: Path, rendered: Mapping[PurePosixPath, str]) -> None:
    for path, text in rendered.items():
        if path.is_relative_to(MODEL_REPOSITORY / "llm_baseline"):
            text = _renamed(text, "llm_baseline", folder.name).replace('"bfloat16"', '"float32"')
            _write(folder / path.relative_to(MODEL_REPOSITORY / "llm_baseline"), text)


def _renamed(text: str, old: str, new: str) -> str:
    return text.replace(f'name: "{old}"', f'name: "{new}"')


def _write(file: Path, text: str) -> None:
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
