"""What a backend expects to find, how the server works out a backend, and the tensors of NVIDIA's vLLM backend."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tools.lint.schema import ModelConfig, Tensor

VLLM = "vllm"
PYTHON = "python"

MODEL_FILES = {
    VLLM: "model.json",
    PYTHON: "model.py",
    "onnxruntime": "model.onnx",
    "tensorrt": "model.plan",
    "pytorch": "model.pt",
    "openvino": "model.xml",
    "dali": "model.dali",
    "fil": "xgboost.model",
}
"""The file each backend loads from a version folder unless default_model_filename names another."""

_CHECKED_BACKENDS = {VLLM, PYTHON, "onnxruntime", "tensorrt"}
"""Backends whose model file is certain. Others have formats of their own, or several."""

_PLATFORMS = {
    "tensorrt_plan": "tensorrt",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "libtorch": "pytorch",
    "torch_aoti": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}

_INFERRED_FROM_FILE = {
    "model.plan": "tensorrt",
    "model.onnx": "onnxruntime",
    "model.xml": "openvino",
    "model.pt": "pytorch",
    "model.pt2": "pytorch",
    "model.py": PYTHON,
    "model.savedmodel": "tensorflow",
    "model.graphdef": "tensorflow",
}
"""Files from which the server works out a backend nobody named. model.json is not among them."""

RECOGNISED_FILES = frozenset(MODEL_FILES.values()) | frozenset(_INFERRED_FROM_FILE)


def effective_backend(config: ModelConfig | None, model_name: str, files: Collection[str]) -> str | None:
    """The backend the server would choose, or None where it cannot tell. Ensembles have none either."""
    if config is not None and config.backend:
        return config.backend
    if config is not None and config.platform:
        return _PLATFORMS.get(config.platform)
    if config is not None and config.default_model_filename:
        return _INFERRED_FROM_FILE.get(config.default_model_filename)
    inferred = next((backend for name, backend in _INFERRED_FROM_FILE.items() if name in files), None)
    _, dot, suffix = model_name.partition(".")
    return inferred or (suffix if dot and suffix else None)


def expected_model_file(backend: str | None, config: ModelConfig) -> str | None:
    """The file that must lie in a version folder, or None where nothing certain can be said."""
    if backend == VLLM:
        return MODEL_FILES[VLLM]  # the backend asks for this name and no other
    if backend not in _CHECKED_BACKENDS or config.cc_model_filenames:
        return None
    return config.default_model_filename or MODEL_FILES[backend]


@dataclass(frozen=True, slots=True)
class VllmContract:
    """The tensors that NVIDIA's vLLM backend completes a config with."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


VLLM_CONTRACT = VllmContract(
    inputs=(
        Tensor("text_input", "TYPE_STRING", (1,)),
        Tensor("image", "TYPE_STRING", (-1,), optional=True),
        Tensor("stream", "TYPE_BOOL", (1,), optional=True),
        Tensor("sampling_parameters", "TYPE_STRING", (1,), optional=True),
        Tensor("exclude_input_in_output", "TYPE_BOOL", (1,), optional=True),
        Tensor("return_finish_reason", "TYPE_BOOL", (1,), optional=True),
        Tensor("return_cumulative_logprob", "TYPE_BOOL", (1,), optional=True),
        Tensor("return_logprobs", "TYPE_BOOL", (1,), optional=True),
        Tensor("return_num_input_tokens", "TYPE_BOOL", (1,), optional=True),
        Tensor("return_num_output_tokens", "TYPE_BOOL", (1,), optional=True),
        Tensor("embedding_request", "TYPE_STRING", (1,), optional=True),
    ),
    outputs=(
        Tensor("text_output", "TYPE_STRING", (-1,)),
        Tensor("finish_reason", "TYPE_STRING", (-1,)),
        Tensor("cumulative_logprob", "TYPE_FP32", (-1,)),
        Tensor("logprobs", "TYPE_STRING", (-1,)),
        Tensor("num_input_tokens", "TYPE_UINT32", (1,)),
        Tensor("num_output_tokens", "TYPE_UINT32", (-1,)),
    ),
)
