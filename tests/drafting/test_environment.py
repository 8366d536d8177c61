from __future__ import annotations

from tools.drafting.environment import engine_environment


def test_what_is_set_already_wins() -> None:
    environment = engine_environment({"PATH": "/bin", "VLLM_CPU_KVCACHE_SPACE": "8"})
    assert environment["PATH"] == "/bin"
    assert environment["VLLM_CPU_KVCACHE_SPACE"] == "8"
    assert environment["HF_HUB_OFFLINE"] == "1"
