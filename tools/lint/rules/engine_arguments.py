"""Rules on model.json, the engine arguments of one version of a vLLM model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tools.lint.artifacts import Artifact
from tools.lint.engines import FLAT_SPECULATIVE_KEYS, Engine, plain_name
from tools.lint.findings import Place, Severity
from tools.lint.mistakes import nearest
from tools.lint.registry import Problem, Scope, rule
from tools.lint.repository import Workspace


@rule(
    "TL601",
    "model-json-syntax",
    Scope.ENGINE,
    Severity.ERROR,
    reason="The backend reads model.json with a strict JSON parser.",
    fix="Correct the JSON at this place.",
)
def model_json_syntax(engine: Engine, _: Workspace) -> Iterator[Problem]:
    for document in (engine.document, engine.version.lora_names):
        if document is not None and document.problem is not None:
            problem = document.problem
            message = f"'{document.path.name}' of {engine.label} is not valid JSON: {problem.message}"
            yield Problem(message, Place(document.path, problem.line, problem.column))


@rule(
    "TL602",
    "model-json-object",
    Scope.ENGINE,
    Severity.ERROR,
    reason="model.json is handed to vLLM as keyword arguments, so it must hold an object.",
    fix='Write an object: { "model": "..." }.',
)
def model_json_object(engine: Engine, _: Workspace) -> Iterator[Problem]:
    document = engine.document
    if document is not None and document.problem is None and document.object is None:
        kind = _json_type(document.value)
        yield Problem(f"'model.json' of {engine.label} holds {kind}, not an object", Place(document.path, 1, 1))


@rule(
    "TL603",
    "json-key-twice",
    Scope.ENGINE,
    Severity.WARNING,
    reason="Of two equal keys JSON parsers keep the last and say nothing.",
    fix="Remove one.",
)
def json_key_twice(engine: Engine, _: Workspace) -> Iterator[Problem]:
    for document in (engine.document, engine.version.lora_names):
        for duplicate in document.duplicates if document is not None else ():
            yield Problem(
                f"key '{duplicate.key}' stands twice in '{document.path.name if document else ''}'", duplicate.place
            )


@rule(
    "TL604",
    "unknown-engine-argument",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Every key goes to vLLM's AsyncEngineArgs; one that it does not know is a TypeError at load.",
    fix="Correct the name or remove the key.",
)
def unknown_engine_argument(engine: Engine, workspace: Workspace) -> Iterator[Problem]:
    installed = workspace.engine_arguments
    if installed is None:
        return
    for key in engine.arguments:
        plain = plain_name(key)
        if plain in installed.engine or plain in FLAT_SPECULATIVE_KEYS:
            continue
        near = nearest(plain, list(installed.engine))
        message = f"'{key}' is no engine argument of vLLM {installed.version}"
        yield Problem(message, engine.at(key), f"Did you mean '{near}'?" if near else None)


@rule(
    "TL605",
    "flat-speculative-arguments",
    Scope.ENGINE,
    Severity.ERROR,
    reason="vLLM removed the flat speculative arguments (--speculative-model and its kin) with its V0 engine.",
    fix="Use the object 'speculative_config'.",
)
def flat_speculative_arguments(engine: Engine, workspace: Workspace) -> Iterator[Problem]:
    accepted = workspace.engine_arguments.engine if workspace.engine_arguments is not None else {}
    flat = [
        key for key in engine.arguments if plain_name(key) in FLAT_SPECULATIVE_KEYS and plain_name(key) not in accepted
    ]
    speculation = engine.speculation
    if not flat:
        return
    settings = dict(speculation.settings) if speculation is not None else {}
    method = {"method": speculation.method} if speculation is not None and speculation.method else {}
    shown = ", ".join(f'"{key}": {json.dumps(value)}' for key, value in {**method, **settings}.items())
    listed = ", ".join(f"'{key}'" for key in flat)
    message = f"{engine.label} sets {listed}, unknown to vLLM since V1"
    yield Problem(message, engine.at(flat[0]), f'Write "speculative_config": {{{shown}}}.' if shown else None)


@rule(
    "TL606",
    "engine-argument-type",
    Scope.ENGINE,
    Severity.WARNING,
    reason='vLLM does not convert every argument: the text "false" is true to Python.',
    fix="Write numbers, true and false without quotes.",
)
def engine_argument_type(engine: Engine, workspace: Workspace) -> Iterator[Problem]:
    installed = workspace.engine_arguments
    for key, value in engine.arguments.items() if installed is not None else ():
        annotation = installed.engine.get(key, "") if installed is not None else ""
        if key != "enable_lora" and not _fits(value, annotation):
            yield Problem(
                f"'{key}' of {engine.label} is {_json_type(value)}, but vLLM takes {annotation}", engine.at(key)
            )


def _fits(value: Any, annotation: str) -> bool:
    """False where a plain annotation (`int`, `float | None` ...) excludes the value; anything richer is not judged."""
    names = {name.strip() for name in annotation.split("|")}
    if not names <= {"int", "float", "bool", "str", "None"}:
        return True
    match value:
        case None:
            return "None" in names
        case bool():
            return "bool" in names
        case int():
            return bool(names & {"int", "float"})
        case float():
            return "float" in names
        case str():
            return "str" in names
        case _:
            return False


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value[:40]}"'
        case list():
            return "a list"
        case _:
            return "an object"


@rule(
    "TL607",
    "vllm-not-installed",
    Scope.WORKSPACE,
    Severity.NOTE,
    reason="The keys of model.json are checked against the installed vLLM, and none is installed here.",
    fix="Run the lint where vLLM is installed, best in the container's release.",
)
def vllm_not_installed(workspace: Workspace) -> Iterator[Problem]:
    models = [model for model in workspace.models if model.is_vllm]
    if models and workspace.engine_arguments is None:
        yield Problem(
            f"no vLLM is installed: model.json of '{models[0].name}' was not checked key by key", Place(models[0].path)
        )


@rule(
    "TL608",
    "gpu-memory-utilization",
    Scope.ENGINE,
    Severity.ERROR,
    reason="gpu_memory_utilization is the share of one GPU's memory: above 0, at most 1.",
    fix="Write a fraction such as 0.9.",
)
def gpu_memory_utilization(engine: Engine, _: Workspace) -> Iterator[Problem]:
    share = engine.gpu_memory_utilization
    if not 0 < share <= 1:
        message = f"gpu_memory_utilization of {engine.label} is {share:g}, outside 0 .. 1"
        yield Problem(message, engine.at("gpu_memory_utilization"))


@rule(
    "TL609",
    "model-not-named",
    Scope.ENGINE,
    Severity.WARNING,
    reason="Without 'model' vLLM fetches its own default model.",
    fix="Name the model: a folder or a hub id.",
)
def model_not_named(engine: Engine, _: Workspace) -> Iterator[Problem]:
    document = engine.document
    if document is not None and document.object is not None and not engine.arguments.get("model"):
        yield Problem(f"'model.json' of {engine.label} names no 'model'", engine.at("model"))


@rule(
    "TL610",
    "lora-names-missing",
    Scope.ENGINE,
    Severity.ERROR,
    reason="With enable_lora the backend reads the adapters' names and paths from multi_lora.json beside model.json.",
    fix="Write multi_lora.json, an object of name: path, into the version's folder.",
)
def lora_names_missing(engine: Engine, _: Workspace) -> Iterator[Problem]:
    if not engine.flag("enable_lora"):
        return
    if "multi_lora.json" not in engine.version.files:
        yield Problem(f"{engine.label} has enable_lora but no 'multi_lora.json'", engine.at("enable_lora"))
    names = engine.version.lora_names
    if names is not None and names.problem is None and names.object is None:
        yield Problem(
            f"'multi_lora.json' of {engine.label} holds {_json_type(names.value)}, not an object",
            Place(names.path, 1, 1),
        )


@rule(
    "TL611",
    "max-model-len",
    Scope.ENGINE,
    Severity.ERROR,
    reason="vLLM refuses a max_model_len beyond the positions the model was trained for.",
    fix="Lower max_model_len, or give the checkpoint's config a rope scaling.",
)
def max_model_len(engine: Engine, _: Workspace) -> Iterator[Problem]:
    target = engine.target
    positions = target.integer("max_position_embeddings") if target is not None else None
    wanted = engine.whole("max_model_len", 0)
    if target is None or positions is None or "hf_overrides" in engine.arguments:
        return
    if wanted <= max(positions, target.integer("model_max_length") or 0):
        return
    rope = target.text_config.get("rope_scaling") or target.text_config.get("rope_parameters")
    kind = (rope.get("rope_type") or rope.get("type")) if isinstance(rope, dict) else None
    if kind in {None, "default"}:
        message = (
            f"max_model_len {wanted} of {engine.label} is beyond the {positions} positions of '{engine.text('model')}'"
        )
        yield Problem(message, engine.at("max_model_len"))


@rule(
    "TL612",
    "tensor-parallel-heads",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Tensor parallelism splits the attention heads evenly over the GPUs.",
    fix="Choose a tensor_parallel_size that divides the number of attention heads.",
)
def tensor_parallel_heads(engine: Engine, _: Workspace) -> Iterator[Problem]:
    size = engine.whole("tensor_parallel_size", 1)
    heads = engine.target.integer("num_attention_heads") if engine.target is not None else None
    if heads and size > 1 and heads % size:
        message = f"tensor_parallel_size {size} of {engine.label} does not divide the {heads} attention heads"
        yield Problem(message, engine.at("tensor_parallel_size"))


@rule(
    "TL613",
    "prefill-budget",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Without chunked prefill a prompt must fit into one step: max_num_batched_tokens bounds the context.",
    fix="Raise max_num_batched_tokens to max_model_len or leave enable_chunked_prefill on.",
)
def prefill_budget(engine: Engine, _: Workspace) -> Iterator[Problem]:
    tokens, length = engine.whole("max_num_batched_tokens", 0), engine.whole("max_model_len", 0)
    if engine.arguments.get("enable_chunked_prefill") is False and 0 < tokens < length:
        message = (
            f"{engine.label} has no chunked prefill and max_num_batched_tokens {tokens} below max_model_len {length}"
        )
        yield Problem(message, engine.at("max_num_batched_tokens"))


@rule(
    "TL614",
    "batched-tokens-below-sequences",
    Scope.ENGINE,
    Severity.ERROR,
    reason="Every running sequence takes at least one token of a step's budget.",
    fix="Raise max_num_batched_tokens to max_num_seqs or more.",
)
def batched_tokens_below_sequences(engine: Engine, _: Workspace) -> Iterator[Problem]:
    tokens, sequences = engine.whole("max_num_batched_tokens", 0), engine.whole("max_num_seqs", 0)
    if 0 < tokens < sequences:
        message = f"max_num_batched_tokens {tokens} of {engine.label} is below max_num_seqs {sequences}"
        yield Problem(message, engine.at("max_num_batched_tokens"))


@rule(
    "TL615",
    "command-line-flag",
    Scope.ENGINE,
    Severity.ERROR,
    reason="model.json takes the names of Python arguments, not the flags of 'vllm serve'.",
    fix="Drop the dashes in front and write underscores.",
)
def command_line_flag(engine: Engine, workspace: Workspace) -> Iterator[Problem]:
    installed = workspace.engine_arguments
    for key in engine.arguments:
        plain = plain_name(key)
        if key != plain and (installed is None or plain in installed.engine):
            yield Problem(f"'{key}' of {engine.label} is a command line flag", engine.at(key), f"Write '{plain}'.")


@rule(
    "TL616",
    "checkpoint-damaged",
    Scope.ENGINE,
    Severity.ERROR,
    reason="vLLM says so only after it has started, or takes the folder's name for a repository on a hub.",
    fix="Restore the folder (git restore, download it again), or make it anew.",
)
def checkpoint_damaged(engine: Engine, _: Workspace) -> Iterator[Problem]:
    speculation = engine.speculation
    named: dict[str, Artifact | None] = {engine.text("model"): engine.target}
    if speculation is not None:
        named[speculation.draft] = speculation.draft_artifact
    for name, artifact in named.items():
        if artifact is None:
            continue
        for damage in artifact.damages:
            message = f"'{damage.file}' in '{name}', which {engine.label} loads, {damage.reason}"
            yield Problem(message, Place(artifact.path / damage.file))
        if not artifact.weight_bytes:
            message = f"'{name}', which {engine.label} loads, holds no weights on this machine"
            yield Problem(message, Place(artifact.path), severity=Severity.WARNING)
