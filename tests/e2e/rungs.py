"""The models of the default profile as raw requests name them, and how they are asked."""

from __future__ import annotations

import json

from tests.e2e.asking import Model

LLM = Model("llm_bf16")
TOKENIZER = Model("chat_tokenizer")
ROUTER = Model("chat")
AWQ = Model("llm_awq")
EAGLE = Model("llm_eagle")
CHAT_EAGLE = Model("chat_eagle")
CHATS = (Model("chat_bf16"), Model("chat_baseline"), Model("chat_awq"), CHAT_EAGLE)
BASELINES = tuple(Model("llm_baseline", version, batched=True) for version in ("1", "2", "3"))


def sampling(max_tokens: int, **parameters: object) -> str:
    """JSON of sampling parameters; greedy unless they say otherwise."""
    return json.dumps({"temperature": 0, "max_tokens": max_tokens, **parameters}, ensure_ascii=False)


def conversation(*contents: str) -> str:
    """`messages` of a conversation whose turns alternate, the user first."""
    roles = ("user", "assistant")
    return json.dumps(
        [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)], ensure_ascii=False
    )
