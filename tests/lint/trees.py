"""Small repositories for the lint's tests, linted against a fixed set of engine arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from tools.lint.findings import LintReport
from tools.lint.linter import lint_workspace
from tools.lint.registry import all_rules
from tools.lint.repository import Workspace, read_repositories
from tools.lint.vllm_arguments import EngineArguments


@dataclass(frozen=True)
class Link:
    """A symbolic link in a tree."""

    target: str


Content = str | bytes | Link | None
Tree = Mapping[str, Content]
"""Path below the test's folder -> what the file holds; None for a folder."""

ENGINE_ARGUMENTS = EngineArguments(
    version="0.32.0",
    engine={
        "model": "str",
        "tokenizer": "str | None",
        "dtype": "ModelDType",
        "quantization": "QuantizationMethods | str | None",
        "max_model_len": "int",
        "max_num_seqs": "int | None",
        "max_num_batched_tokens": "int | None",
        "enable_chunked_prefill": "bool | None",
        "gpu_memory_utilization": "float",
        "kv_cache_memory_bytes": "int | None",
        "tensor_parallel_size": "int",
        "pipeline_parallel_size": "int",
        "enforce_eager": "bool",
        "disable_log_stats": "bool",
        "enable_lora": "bool",
        "speculative_config": "dict[str, Any] | None",
        "spec_method": "str | None",
        "spec_model": "str | None",
        "spec_tokens": "int | None",
        "hf_overrides": "HfOverrides",
    },
    speculative={
        "method": "SpeculativeMethod | None",
        "model": "str | None",
        "num_speculative_tokens": "int",
        "draft_tensor_parallel_size": "int | None",
        "tensor_parallel_size": "int | None",
        "prompt_lookup_max": "int | None",
        "prompt_lookup_min": "int | None",
        "use_heterogeneous_vocab": "bool",
    },
)

VLLM_TENSORS = """
input [
  { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] },
  { name: "stream" data_type: TYPE_BOOL dims: [ 1 ] optional: true },
  { name: "input_ids" data_type: TYPE_INT32 dims: [ -1 ] optional: true }
]
output [
  { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "num_input_tokens" data_type: TYPE_UINT32 dims: [ 1 ] }
]
"""
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
KIND_MODEL = "instance_group [ { count: 1 kind: KIND_MODEL } ]\n"
TEXT_IN = 'input { name: "text" data_type: TYPE_STRING dims: [ 1 ] }\n'
TEXT_OUT = 'output { name: "answer" data_type: TYPE_STRING dims: [ 1 ] }\n'


def python_model(extra: str = "", *, name: str = "m", tensors: str = TEXT_IN + TEXT_OUT) -> Tree:
    """A Python-backend model with one text in and one out; `extra` goes behind, one line from line 5 on."""
    config = f'name: "{name}"\nbackend: "python"\n{tensors}{extra}'
    return {f"repo/{name}/config.pbtxt": config, f"repo/{name}/1/model.py": ""}


def config_only(config: str, *, name: str = "m") -> Tree:
    """A Python-backend model whose whole config.pbtxt is given."""
    return {f"repo/{name}/config.pbtxt": config, f"repo/{name}/1/model.py": ""}


def vllm_model(
    arguments: Mapping[str, Any] | str | None = None,
    extra: str = "",
    *,
    name: str = "llm",
    group: str = KIND_MODEL,
    tensors: str = VLLM_TENSORS,
    policy: str = DECOUPLED,
) -> Tree:
    """A complete vLLM model; a mapping of arguments is added to a hub id as model, a text is model.json as it is."""
    if not isinstance(arguments, str):
        arguments = json.dumps({"model": "org/model", **(arguments or {})}, indent=1)
    config = f'name: "{name}"\nbackend: "vllm"\n{policy}{group}{tensors}{extra}'
    return {f"repo/{name}/config.pbtxt": config, f"repo/{name}/1/model.json": arguments}


def weights(values: int = 100, shapes: Mapping[str, tuple[int, ...]] | None = None) -> bytes:
    """A safetensors file: a tensor of so many bytes, and those of the given shapes."""
    tensors = {"embed_tokens.weight": (values,), **(shapes or {})}
    return save({name: np.zeros(shape, np.uint8) for name, shape in tensors.items()})


def checkpoint(path: str, weight_bytes: int = 100, tokenizer: Mapping[str, Any] | None = None, **config: Any) -> Tree:
    """A local model folder of Llama's shape; keyword arguments are config.json's."""
    shape = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_attention_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    }
    files: dict[str, Content] = {
        f"{path}/config.json": json.dumps({**shape, **config}),
        f"{path}/model.safetensors": weights(weight_bytes),
    }
    if tokenizer is not None:
        files[f"{path}/tokenizer_config.json"] = json.dumps(tokenizer)
    return files


def step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str], version: str = "model_version: -1") -> str:
    """One step; both maps lead from the model's tensor to the ensemble's."""
    maps = [f'input_map {{ key: "{key}" value: "{value}" }}' for key, value in inputs.items()]
    maps += [f'output_map {{ key: "{key}" value: "{value}" }}' for key, value in outputs.items()]
    return f'  step {{ model_name: "{model}" {version} {" ".join(maps)} }}\n'


def ensemble(
    *steps: str, name: str = "e", tensors: str = TEXT_IN + TEXT_OUT, extra: str = "", scheduling: str = ""
) -> Tree:
    config = f'name: "{name}"\nplatform: "ensemble"\n{tensors}{extra}'
    return {
        f"repo/{name}/config.pbtxt": f"{config}ensemble_scheduling {{\n{scheduling}{''.join(steps)}}}\n",
        f"repo/{name}/1/.gitkeep": "",
    }


def write_tree(root: Path, tree: Tree) -> None:
    for name, content in tree.items():
        path = root / name
        (path if content is None else path.parent).mkdir(parents=True, exist_ok=True)
        match content:
            case str():
                path.write_text(content, encoding="utf-8")
            case bytes():
                path.write_bytes(content)
            case Link(target):
                path.symlink_to(target)


def lint_tree(
    root: Path,
    tree: Tree,
    *,
    paths: Sequence[str] = ("repo",),
    engine_arguments: EngineArguments | None = ENGINE_ARGUMENTS,
    gpus: int | None = None,
) -> LintReport:
    """Writes the tree below `root` and lints it with every rule; relative model paths start at `root`."""
    write_tree(root, tree)
    repositories, manifests = read_repositories([root / path for path in paths], [root])
    return lint_workspace(Workspace(repositories, manifests, engine_arguments, gpus), all_rules())
