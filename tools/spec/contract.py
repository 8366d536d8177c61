"""The tensors of every model the project serves, in one place: configs and ensembles are written from these.

Names, types and optional flags of the engines are those of NVIDIA's vLLM backend, so a client of either works with
both. What is added is optional.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

DataType = Literal["STRING", "BOOL", "INT32", "UINT32", "FP32"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input or output. `dims` is without a batch dimension, -1 is any length; `ragged` only matters with one.

    `note` says why the tensor is as it is, where that is not plain.
    """

    name: str
    data_type: DataType
    dims: tuple[int, ...] = (1,)
    optional: bool = False
    ragged: bool = False
    note: str = ""


_TEXT_INPUT: Final = Tensor("text_input", "STRING")
_STREAM: Final = Tensor("stream", "BOOL", optional=True)
_SAMPLING_PARAMETERS: Final = Tensor("sampling_parameters", "STRING", optional=True)
_EXCLUDE_INPUT: Final = Tensor("exclude_input_in_output", "BOOL", optional=True)
_RETURN_FINISH_REASON: Final = Tensor("return_finish_reason", "BOOL", optional=True)
_RETURN_CUMULATIVE_LOGPROB: Final = Tensor("return_cumulative_logprob", "BOOL", optional=True)
_RETURN_LOGPROBS: Final = Tensor("return_logprobs", "BOOL", optional=True)
_RETURN_NUM_INPUT_TOKENS: Final = Tensor("return_num_input_tokens", "BOOL", optional=True)
_RETURN_NUM_OUTPUT_TOKENS: Final = Tensor("return_num_output_tokens", "BOOL", optional=True)
_MESSAGES: Final = Tensor(
    "messages", "STRING", optional=True, note='JSON list of {"role": ..., "content": ...}; or give text_input.'
)

VLLM_INPUTS: Final = (
    _TEXT_INPUT,
    Tensor("image", "STRING", (-1,), optional=True),
    _STREAM,
    _SAMPLING_PARAMETERS,
    _EXCLUDE_INPUT,
    _RETURN_FINISH_REASON,
    _RETURN_CUMULATIVE_LOGPROB,
    _RETURN_LOGPROBS,
    _RETURN_NUM_INPUT_TOKENS,
    _RETURN_NUM_OUTPUT_TOKENS,
    Tensor("embedding_request", "STRING", optional=True),
    Tensor(
        "input_ids",
        "INT32",
        (-1,),
        optional=True,
        note="Not in NVIDIA's contract: the prompt's tokens, which spare the engine tokenizing it again.",
    ),
)

VLLM_OUTPUTS: Final = (
    Tensor("text_output", "STRING", (-1,)),
    Tensor("finish_reason", "STRING", (-1,)),
    Tensor("cumulative_logprob", "FP32", (-1,)),
    Tensor("logprobs", "STRING", (-1,)),
    Tensor("num_input_tokens", "UINT32"),
    Tensor("num_output_tokens", "UINT32", (-1,)),
    Tensor(
        "prompt_logprobs",
        "STRING",
        note="Not in NVIDIA's contract: comes with return_logprobs and the sampling parameter prompt_logprobs.",
    ),
)

BASELINE_INPUTS: Final = (
    _TEXT_INPUT,
    Tensor(
        "input_ids",
        "INT32",
        (-1,),
        optional=True,
        ragged=True,
        note="Ragged, or the batcher would only gather prompts of equal length.",
    ),
    _STREAM,
    _SAMPLING_PARAMETERS,
    _EXCLUDE_INPUT,
    _RETURN_FINISH_REASON,
    _RETURN_NUM_INPUT_TOKENS,
    _RETURN_NUM_OUTPUT_TOKENS,
)

BASELINE_OUTPUTS: Final = (
    Tensor("text_output", "STRING"),
    Tensor("finish_reason", "STRING"),
    Tensor("num_input_tokens", "UINT32"),
    Tensor("num_output_tokens", "UINT32"),
)

TOKENIZER_INPUTS: Final = (
    _MESSAGES,
    replace(_TEXT_INPUT, optional=True, note="A prompt that is templated already, or wants no template."),
    _EXCLUDE_INPUT,
)

TOKENIZER_OUTPUTS: Final = (
    Tensor("prompt", "STRING"),
    Tensor("input_ids", "INT32", (-1,)),
    Tensor("num_input_tokens", "UINT32"),
    replace(_EXCLUDE_INPUT, optional=False, note="What the request said; true where it said nothing."),
)

# A client of an engine, or of an ensemble in front of one, changes nothing but the model's name.
ROUTER_INPUTS: Final = TOKENIZER_INPUTS + tuple(
    tensor for tensor in VLLM_INPUTS if tensor.name not in {known.name for known in TOKENIZER_INPUTS}
)

ROUTER_OUTPUTS: Final = (
    *VLLM_OUTPUTS,
    Tensor("served_model", "STRING", note="Which target answers; both come with the first response."),
    Tensor("served_version", "INT32"),
)

# Engine inputs that a chat leaves to the tokenizer step or does not have.
_NOT_FROM_THE_CHAT: Final = frozenset({"text_input", "input_ids", "image", "embedding_request"})

# Tokenizer output -> engine input, by the names of both.
TOKENIZER_TO_ENGINE: Final = (
    ("prompt", "text_input"),
    ("input_ids", "input_ids"),
    ("exclude_input_in_output", "exclude_input_in_output"),
)


def chat_inputs(engine_inputs: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Inputs of the ensemble in front of an engine: the tokenizer's, then the engine's own options."""
    options = tuple(
        replace(tensor, ragged=False)
        for tensor in engine_inputs
        if tensor.name not in _NOT_FROM_THE_CHAT and tensor not in TOKENIZER_INPUTS
    )
    return TOKENIZER_INPUTS + options


def chat_options(engine_inputs: Iterable[Tensor]) -> tuple[str, ...]:
    """Names of the ensemble inputs that go past the tokenizer straight to the engine."""
    return tuple(tensor.name for tensor in chat_inputs(engine_inputs)[len(TOKENIZER_INPUTS) :])
