"""What an engine takes beside weights and KV cache. Formulas name their source; the constants are estimates.

No GPU run of this project has checked those of a GPU: vLLM measures the real figures at start-up and takes them off
the KV cache. They are on the large side of what published start-up logs of vLLM show for models of 7B to 8B.
"""

from __future__ import annotations

from typing import Final

from tools.planning.architecture import Architecture
from tools.planning.units import GIB, MIB
from tools.planning.weights import DTYPE_BYTES

CUDA_CONTEXT: Final = int(0.45 * GIB)
"""Of every process, before its first tensor. vLLM takes its first look at the free memory after the context is there,
so it lies outside gpu_memory_utilization (gpu_worker.py, init_device)."""

LIBRARIES: Final = int(0.3 * GIB)
"""cuBLAS workspaces, loaded kernels: "non_torch_memory" in vLLM's logs, 0.16 to 0.33 GiB on one GPU."""

COLLECTIVES: Final = int(0.5 * GIB)
"""NCCL's and the custom all-reduce's buffers of a GPU that works with others; made before vLLM's first look."""

CPU_VLLM: Final = int(1.4 * GIB)
CPU_TRANSFORMERS: Final = int(0.5 * GIB)
"""An engine's processes on CPU beside weights and cache: interpreters, torch, vLLM. Measured as proportional set size
of `llm_bf16` (stub, engine and EngineCore) and `llm_baseline` while they served SmolLM2-135M."""

_SAMPLER_BYTES_PER_LOGIT: Final = 40
"""vLLM profiles its sampler with top-k and top-p on: logits in float32, their sort (values, int64 indices and the
sort's own copies), softmax, cumulative sum, scatter. 256 sequences of Llama-3-8B (vocabulary 128256) give 1.22 GiB;
a published log says 1.26."""

_GRAPH_BYTES_PER_LAYER: Final = MIB // 4
"""One captured CUDA graph, per decoder layer. 67 graphs of a 32-layer model: 0.52 GiB."""

_LARGEST_GRAPH: Final = 512


def activation_bytes(
    architecture: Architecture, *, batched_tokens: int, sequences: int, dtype: str, tensor_parallel: int
) -> int:
    """Peak of vLLM's profiling run (gpu_model_runner.py, profile_run): the largest MLP, or the sampler after it.

    MLP of T tokens: residual, hidden and output [T, H], gate and up [T, 2I], their product [T, I]. Sampler: the last
    hidden states of all T tokens, and the logits [sequences, V] with what sampling makes of them.
    """
    hidden, size = architecture.hidden_size, DTYPE_BYTES[dtype]
    mlp = batched_tokens * (3 * hidden + 3 * architecture.intermediate_size // tensor_parallel) * size
    rows = min(sequences, batched_tokens)
    sampler = batched_tokens * hidden * size + rows * architecture.vocab_size * _SAMPLER_BYTES_PER_LOGIT
    return max(mlp, sampler)


def graph_bytes(layers: int, sequences: int) -> int:
    """CUDA graphs of vLLM's default mode (FULL_AND_PIECEWISE): one piecewise graph for every size in
    config/vllm.py's list, and a full one for every size that a decode batch can have.
    """
    sizes = _graph_sizes(min(2 * sequences, _LARGEST_GRAPH))
    full = [size for size in sizes if size <= sequences]
    return (len(sizes) + len(full)) * layers * _GRAPH_BYTES_PER_LAYER


def prefill_bytes(
    architecture: Architecture, *, sequences: int, context: int, dtype: str, attention: str, cache: int
) -> int:
    """Peak of transformers' generate(): the MLP of the whole prompt, eager attention's scores where it computes them
    ([heads, T, T] in the model's type, in float32 for the softmax, and back), and the copy of one layer's cache that
    appending to it makes.
    """
    size = DTYPE_BYTES[dtype]
    tokens = sequences * context
    mlp = tokens * (3 * architecture.hidden_size + 3 * architecture.intermediate_size) * size
    scores = 0
    if attention == "eager":
        scores = sequences * architecture.num_attention_heads * context**2 * (2 * size + 4)
    return max(mlp, scores) + cache // architecture.num_hidden_layers


def _graph_sizes(largest: int) -> list[int]:
    """1, 2, 4, then steps of 8 up to 256 and of 16 beyond."""
    sizes = [1, 2, 4, *range(8, min(largest + 1, 256), 8), *range(256, largest + 1, 16)]
    return [size for size in sizes if size <= largest]
