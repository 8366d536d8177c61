"""Rules on speculative decoding: whether draft and target can fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from tools.lint.artifacts import Artifact
from tools.lint.engines import Engine, plain_name
from tools.lint.findings import Severity
from tools.lint.mistakes import nearest
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Workspace

_FAMILIES = {
    "llama": ("llama", "vicuna", "alpaca", "smollm", "tulu", "hermes"),
    "falcon": ("falcon",),
    "qwen": ("qwen", "qwq"),
    "mistral": ("mistral", "mixtral", "ministral"),
    "gemma": ("gemma",),
    "phi": ("phi-", "phi3", "phi4"),
    "gpt-oss": ("gpt-oss", "gpt_oss"),
    "deepseek": ("deepseek",),
    "glm": ("glm",),
    "granite": ("granite",),
    "opt": ("opt-",),
}
"""Words in a model's name that tell the family whose weights it has."""

_DEFAULT_AUX_LAYERS = 3
"""How many layers vLLM takes where an EAGLE-3 head names none."""


def _families(name: str) -> set[str]:
    words = name.lower().rsplit("/", 1)[-1]
    return {family for family, marks in _FAMILIES.items() if any(mark in words for mark in marks)}


def _sizes(engine: Engine, key: str) -> tuple[int, int] | None:
    """A size of draft and target, where both configs are on this machine and have it."""
    speculation = engine.speculation
    if speculation is None or speculation.draft_artifact is None or engine.target is None:
        return None
    draft, target = speculation.draft_artifact.integer(key), engine.target.integer(key)
    return None if draft is None or target is None else (draft, target)


def _draft_place_keys(engine: Engine) -> tuple[str, ...]:
    if isinstance(engine.arguments.get("speculative_config"), dict):
        return ("speculative_config", "model")
    names = {"speculative_model", "spec_model"}
    return (next((key for key in engine.arguments if plain_name(key) in names), "speculative_config"),)


def _billions(name: str) -> float | None:
    """The number of parameters that a name like 'Llama-2-7B' or 'EAGLE-3-0.5b' states, in billions."""
    match = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)\s*b(?![a-z0-9])", PurePath(name).name.lower().replace("_", "-"))
    return float(match[1]) if match else None


@rule(
    "TL711",
    "draft-hidden-size",
    Scope.ENGINE,
    Severity.ERROR,
    reason="A draft head reads the target's hidden states, so it must be built for their size.",
    fix="Use a head that was trained for this target.",
)
def draft_hidden_size(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    if speculation is None or not speculation.is_head or speculation.draft_artifact is None or engine.target is None:
        return
    draft = speculation.draft_artifact
    expected = draft.integer("target_hidden_size") or draft.integer("hidden_size")
    actual = engine.target.integer("hidden_size")
    if expected is not None and actual is not None and expected != actual:
        message = (
            f"draft '{speculation.draft}' expects hidden size {expected}, target '{engine.text('model')}' has {actual}"
        )
        yield Problem(message, engine.at(*_draft_place_keys(engine)))


@rule(
    "TL712",
    "draft-vocabulary",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Draft tokens are checked by the target token for token: both must number the same vocabulary.",
    fix="Use a draft with the target's tokenizer.",
)
def draft_vocabulary(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation, sizes = engine.speculation, _sizes(engine, "vocab_size")
    if (
        speculation is None
        or speculation.settings.get("use_heterogeneous_vocab") is True
        or speculation.method == "medusa"
    ):
        return
    if sizes is not None and sizes[0] != sizes[1]:
        message = (
            f"draft '{speculation.draft}' has a vocabulary of {sizes[0]}, target '{engine.text('model')}' of {sizes[1]}"
        )
        yield Problem(message, engine.at(*_draft_place_keys(engine)))
    reduced = speculation.draft_artifact.integer("draft_vocab_size") if speculation.draft_artifact is not None else None
    if sizes is not None and reduced is not None and reduced > sizes[1]:
        message = f"draft_vocab_size {reduced} of '{speculation.draft}' is beyond the target's vocabulary of {sizes[1]}"
        yield Problem(message, engine.at(*_draft_place_keys(engine)))


@rule(
    "TL713",
    "draft-family",
    Scope.ENGINE,
    Severity.ERROR,
    reason="A draft head is trained on one target's hidden states; on another family's it cannot even be loaded.",
    fix="Use a head that was trained for this target.",
)
def draft_family(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    if speculation is None or not speculation.is_head or _sizes(engine, "hidden_size") is not None:
        return  # with both configs here, their sizes say more than their names
    draft, target = _families(speculation.draft), _families(engine.text("model"))
    if draft and target and not draft & target:
        ends = f"a {_listed(draft)} head, target '{engine.text('model')}' is {_listed(target)}"
        message = f"draft '{speculation.draft}' is {ends}"
        yield Problem(message, engine.at(*_draft_place_keys(engine)))


def _listed(families: set[str]) -> str:
    return "/".join(sorted(families)).capitalize()


@rule(
    "TL714",
    "draft-context",
    Scope.ENGINE,
    Severity.WARNING,
    reason="Beyond its positions a draft is of no use, and many vLLM releases cut the whole context down to them.",
    fix="Lower max_model_len, or use a draft with as many positions.",
)
def draft_context(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    artifact = speculation.draft_artifact if speculation is not None else None
    positions = artifact.integer("max_position_embeddings") if artifact is not None else None
    target_positions = engine.target.integer("max_position_embeddings") if engine.target is not None else None
    length = engine.whole("max_model_len", target_positions or 0)
    if speculation is not None and positions is not None and positions < length:
        message = f"draft '{speculation.draft}' has {positions} positions, {engine.label} serves max_model_len {length}"
        yield Problem(message, engine.at(*_draft_place_keys(engine)))


@rule(
    "TL715",
    "draft-as-large-as-target",
    Scope.ENGINE,
    Severity.WARNING,
    reason="Draft weights come out of gpu_memory_utilization too: a large draft leaves no room for the KV cache.",
    fix="Count the draft's weights in the memory plan, or use a head of a few layers.",
)
def draft_as_large_as_target(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    if speculation is None or not speculation.draft:
        return
    artifact, target = speculation.draft_artifact, engine.target
    name = engine.text("model")
    if artifact is not None and target is not None and artifact.weight_bytes and target.weight_bytes:
        if artifact.weight_bytes * 2 >= target.weight_bytes:
            sizes = f"{artifact.weight_bytes / 1e9:.2f} GB, target '{name}' has {target.weight_bytes / 1e9:.2f} GB"
            yield Problem(f"draft '{speculation.draft}' has {sizes}", engine.at(*_draft_place_keys(engine)))
        return
    draft_size, target_size = _billions(speculation.draft), _billions(name)
    if speculation.is_head or draft_size is None or target_size is None:
        return  # a head is named after its target: 'EAGLE3-LLaMA3.1-8B' says nothing about its own size
    if draft_size * 2 >= target_size:
        message = (
            f"draft '{speculation.draft}' is a {draft_size:g}B model in front of '{name}', a {target_size:g}B model"
        )
        yield Problem(message, engine.at(*_draft_place_keys(engine)))


@rule(
    "TL716",
    "unknown-speculative-key",
    Scope.ENGINE,
    Severity.ERROR,
    reason="speculative_config goes to vLLM's SpeculativeConfig; a key that it does not know is an error at load.",
    fix="Correct the name or remove the key.",
)
def unknown_speculative_key(engine: Engine, workspace: Workspace) -> Iterator[Problem]:
    installed = workspace.engine_arguments
    settings = engine.arguments.get("speculative_config")
    if installed is None or not installed.speculative or not isinstance(settings, dict):
        return
    for key in settings:
        if key not in installed.speculative:
            near = nearest(key, list(installed.speculative))
            message = f"'{key}' is no key of speculative_config in vLLM {installed.version}"
            yield Problem(message, engine.at("speculative_config", key), f"Did you mean '{near}'?" if near else None)


@rule(
    "TL717",
    "speculative-config-incomplete",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Each method needs its own settings; vLLM refuses to start without them.",
    fix="Add what is missing.",
)
def speculative_config_incomplete(engine: Engine, _: Workspace) -> Iterator[Problem]:
    settings = engine.arguments.get("speculative_config")
    speculation = engine.speculation
    if not isinstance(settings, dict):
        if settings is not None:
            yield Problem(f"speculative_config of {engine.label} is no object", engine.at("speculative_config"))
        return
    place = engine.at("speculative_config")
    method = speculation.method if speculation is not None else ""
    if not method and not settings.get("model"):
        yield Problem(f"speculative_config of {engine.label} names neither 'method' nor 'model'", place)
        return
    ngram_window = settings.get("prompt_lookup_max") or settings.get("prompt_lookup_min")
    if (method in {"eagle", "eagle3", "medusa", "draft_model", "mlp_speculator"}) and not settings.get("model"):
        yield Problem(f"method '{method}' of {engine.label} names no draft 'model'", place)
    if method == "ngram" and not ngram_window:
        yield Problem(f"method 'ngram' of {engine.label} has no 'prompt_lookup_max'", place)
    if method in {"eagle", "eagle3", "ngram", "draft_model"} and not settings.get("num_speculative_tokens"):
        yield Problem(f"method '{method}' of {engine.label} has no 'num_speculative_tokens'", place)


@rule(
    "TL718",
    "draft-tensor-parallel",
    Scope.ENGINE,
    Severity.ERROR,
    reason="vLLM runs a draft on one GPU or on as many as its target, nothing between.",
    fix="Set draft_tensor_parallel_size to 1 or to tensor_parallel_size.",
)
def draft_tensor_parallel(engine: Engine, _: Workspace) -> Iterator[Problem]:
    settings = engine.arguments.get("speculative_config")
    if not isinstance(settings, dict):
        return
    if "tensor_parallel_size" in settings:
        message = f"speculative_config of {engine.label} has 'tensor_parallel_size', which vLLM refuses there"
        yield Problem(
            message, engine.at("speculative_config", "tensor_parallel_size"), "Write 'draft_tensor_parallel_size'."
        )
    size, target = settings.get("draft_tensor_parallel_size"), engine.whole("tensor_parallel_size", 1)
    if isinstance(size, int) and size not in {1, target}:
        message = f"draft_tensor_parallel_size {size} of {engine.label} is neither 1 nor tensor_parallel_size {target}"
        yield Problem(message, engine.at("speculative_config", "draft_tensor_parallel_size"))


@rule(
    "TL719",
    "draft-aux-layers",
    Scope.ENGINE,
    Severity.ERROR,
    reason="An EAGLE-3 head reads some of the target's layers by number; vLLM leaves out those that are not there.",
    fix="Use a head that was trained for this target, with the config.json that was written with it.",
)
def draft_aux_layers(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    draft = speculation.draft_artifact if speculation is not None else None
    if speculation is None or draft is None or speculation.method != "eagle3":
        return
    place, named = engine.at(*_draft_place_keys(engine)), _aux_layers(draft)
    layers = engine.target.integer("num_hidden_layers") if engine.target is not None else None
    beyond = [number for number in named if layers is not None and not 0 <= number <= layers]
    if beyond:
        message = f"draft '{speculation.draft}' reads layer {beyond[0]}, target '{engine.text('model')}' has {layers}"
        yield Problem(message, place)
    inputs = draft.shapes.get("fc.weight", ())[1:]
    size = draft.integer("target_hidden_size") or draft.integer("hidden_size")
    count = draft.integer("num_aux_hidden_states") or len(named) or _DEFAULT_AUX_LAYERS
    if inputs and size is not None and inputs != (count * size,):
        message = f"'fc.weight' of draft '{speculation.draft}' takes {inputs[0]} inputs, its config.json makes {count}"
        yield Problem(f"{message} layers of {size}, {count * size}", place)


def _aux_layers(draft: Artifact) -> list[int]:
    """The layers that a head names; empty where it leaves them to vLLM."""
    inner = draft.config.get("eagle_config")
    named = draft.config.get("eagle_aux_hidden_state_layer_ids") or (
        inner.get("eagle_aux_hidden_state_layer_ids") if isinstance(inner, dict) else None
    )
    return [number for number in named if isinstance(number, int)] if isinstance(named, list) else []
