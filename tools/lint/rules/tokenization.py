"""The rule on the begin-of-sequence token between a step that applies the chat template and the engine behind it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.lint.artifacts import Artifact
from tools.lint.engines import engines_of
from tools.lint.findings import Severity
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Model, Workspace


@rule(
    "TL920",
    "double-bos",
    Scope.ENSEMBLE,
    Severity.WARNING,
    reason="A chat template that writes the BOS and a tokenizer that adds one give the model two, and worse answers.",
    fix="Let the step in front take the BOS off the text, or hand the engine 'input_ids' instead (this project's "
    "chat_tokenizer does both).",
)
def double_bos(model: Model, workspace: Workspace) -> Iterator[Problem]:
    ensemble = model.config.ensemble
    if ensemble is None:
        return
    written = {tensor for step in ensemble.steps for tensor in step.output_map.values()}
    for index, step in enumerate(ensemble.steps):
        engine_model = workspace.find(step.model_name)
        takes_templated_text = step.input_map.get("text_input") in written and "input_ids" not in step.input_map
        if engine_model is None or not takes_templated_text:
            continue
        for engine in engines_of(engine_model):
            if engine.tokenizer is not None and _would_double(engine.tokenizer):
                message = (
                    f"ensemble '{model.name}' hands templated text to {engine.label}, whose tokenizer adds a second BOS"
                )
                yield Problem(message, model.at("ensemble_scheduling", 0, "step", index, "input_map"))
                break


def _would_double(tokenizer: Artifact) -> bool:
    """True where the tokenizer adds a BOS of its own and its chat template writes one too."""
    if tokenizer.adds_bos is not True:
        return False
    bos = tokenizer.tokenizer_config.get("bos_token")
    text = bos.get("content") if isinstance(bos, dict) else bos
    literal = isinstance(text, str) and bool(text) and text in tokenizer.chat_template
    return literal or re.search(r"\bbos_token\b", tokenizer.chat_template) is not None
