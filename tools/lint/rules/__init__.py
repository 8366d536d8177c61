"""The rules, one module per object they look at. Importing a module registers its rules."""

from tools.lint.rules import (
    config,
    engine_arguments,
    ensemble,
    ensemble_steps,
    kubernetes,
    memory,
    quantization,
    repository,
    router,
    speculative,
    syntax,
    tokenization,
    versions,
    vllm,
)

__all__ = [
    "config",
    "engine_arguments",
    "ensemble",
    "ensemble_steps",
    "kubernetes",
    "memory",
    "quantization",
    "repository",
    "router",
    "speculative",
    "syntax",
    "tokenization",
    "versions",
    "vllm",
]
