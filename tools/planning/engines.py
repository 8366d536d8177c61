"""Which engines a profile starts, and what each takes of a GPU: plain values out of the profile's variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from tools.planning import overheads
from tools.planning.architecture import Architecture, architecture_of
from tools.planning.errors import PlanningError
from tools.planning.kv_cache import CPU_BLOCK_TOKENS, GPU_BLOCK_TOKENS, KvCache
from tools.planning.units import GIB
from tools.planning.weights import DTYPE_BYTES, Draft, awq_bytes, draft_bytes, unquantised_bytes
from tools.spec.profile import Profile
from tools.spec.variants import BaselineVariant, BaselineVersion, VllmVariant

TENSOR_PARALLEL: Final = (1, 2, 4, 8)
"""The numbers of GPUs that are offered."""

# vLLM 0.32 for an engine started from Python: config/scheduler.py, config/cache.py.
_DEFAULT_SEQUENCES: Final = 128
_DEFAULT_BATCHED_TOKENS: Final = 2048
_DEFAULT_SHARE: Final = 0.92
_DTYPES: Final = {"half": "float16", "float": "float32"}
_KV_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"


class Kind(Enum):
    """What memory is taken for."""

    WEIGHTS = "weights"
    DRAFT = "draft head"
    ACTIVATIONS = "activations"
    GRAPHS = "CUDA graphs"
    RUNTIME = "runtime"
    CONTEXT = "CUDA context"
    KV_CACHE = "KV cache"


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine process of a profile. Lengths are in tokens, `kv_space` in bytes.

    `group_size` is None for weights that are not quantised. `share` is gpu_memory_utilization; None for the baseline,
    which takes memory as it needs it, and where `kv_space` sets the size of the cache. `attention` is "paged" for
    vLLM, else transformers' implementation.
    """

    model: str
    version: int
    architecture: Architecture
    dtype: str
    group_size: int | None
    draft: Draft | None
    kv_element_bytes: int
    block_tokens: int | None
    max_model_len: int
    sequences: int
    batched_tokens: int
    eager: bool
    attention: str
    share: float | None
    share_is_default: bool
    kv_space: int | None
    tensor_parallel: int

    @property
    def label(self) -> str:
        return f"{self.model}:{self.version}"

    @property
    def is_vllm(self) -> bool:
        return self.attention == "paged"

    def weights(self, tensor_parallel: int) -> int:
        """Bytes of the target's weights on each GPU."""
        if self.group_size is None:
            return unquantised_bytes(self.architecture, self.dtype, tensor_parallel)
        return awq_bytes(self.architecture, self.group_size, self.dtype, tensor_parallel)

    def cache(self, tensor_parallel: int) -> KvCache:
        """The cache on each GPU. transformers' grows token by token: its blocks have one."""
        return KvCache.of(
            self.architecture,
            element_bytes=self.kv_element_bytes,
            block_tokens=self.block_tokens or 1,
            draft_layers=1 if self.draft else 0,
            tensor_parallel=tensor_parallel,
        )

    def resident(self, accelerator: str, context: int, tensor_parallel: int) -> dict[Kind, int]:
        """Bytes on each GPU of everything but the KV cache; all of it lies inside `share`."""
        parts = {Kind.WEIGHTS: self.weights(tensor_parallel)}
        if self.draft:
            parts[Kind.DRAFT] = draft_bytes(self.architecture, self.draft, self.dtype, tensor_parallel)
        if self.is_vllm:
            parts[Kind.ACTIVATIONS] = overheads.activation_bytes(
                self.architecture,
                batched_tokens=self.batched_tokens,
                sequences=self.sequences,
                dtype=self.dtype,
                tensor_parallel=tensor_parallel,
            )
        else:
            parts[Kind.ACTIVATIONS] = overheads.prefill_bytes(
                self.architecture,
                sequences=self.sequences,
                context=context,
                dtype=self.dtype,
                attention=self.attention,
                cache=self.baseline_cache(context),
            )
        if accelerator == "cuda":
            parts[Kind.RUNTIME] = overheads.LIBRARIES
            if self.is_vllm and not self.eager:
                layers = self.architecture.num_hidden_layers + (1 if self.draft else 0)
                parts[Kind.GRAPHS] = overheads.graph_bytes(layers, self.sequences)
        else:
            parts[Kind.RUNTIME] = overheads.CPU_VLLM if self.is_vllm else overheads.CPU_TRANSFORMERS
        return parts

    def baseline_cache(self, context: int) -> int:
        """Bytes of transformers' cache when a full batch has `context` tokens in every row."""
        return self.sequences * context * self.cache(1).token_bytes


def outside_share(accelerator: str, tensor_parallel: int) -> int:
    """Bytes of an engine that gpu_memory_utilization does not count."""
    if accelerator == "cpu":
        return 0
    return overheads.CUDA_CONTEXT + (overheads.COLLECTIVES if tensor_parallel > 1 else 0)


def engines_of(profile: Profile, root: Path, accelerator: str, *, disabled_too: bool = False) -> list[Engine]:
    """The engines of the versions that are loaded, in the profile's order; artifacts are looked for below `root`.

    Raises PlanningError.
    """
    variants = profile.variants if disabled_too else profile.enabled_variants
    engines: list[Engine] = []
    for name, variant in variants.items():
        loaded = variant.load_versions or tuple(variant.versions)
        if isinstance(variant, BaselineVariant):
            batch = variant.dynamic_batching.max_batch_size
            engines += [
                _baseline(profile, root, name, number, variant.versions[number], batch) for number in sorted(loaded)
            ]
        else:
            engines += [_vllm(profile, root, name, number, variant, accelerator) for number in sorted(loaded)]
    return engines


def tensor_parallel_problem(engine: Engine, degree: int) -> str | None:
    """Why vLLM would refuse to split this engine over so many GPUs; None when it would not.

    Heads are dealt out whole (config/model.py, verify_with_parallel_config), and the rows of a quantised matrix in
    whole groups (layers/quantization).
    """
    sizes = engine.architecture
    heads, kv_heads = sizes.num_attention_heads, sizes.num_key_value_heads
    if heads % degree:
        return f"{heads} heads do not divide by {degree}"
    if kv_heads % degree and degree % kv_heads:
        return f"{kv_heads} KV heads do not divide by {degree}"
    if sizes.intermediate_size % degree:
        return f"intermediate size {sizes.intermediate_size} does not divide by {degree}"
    for rows in (heads * sizes.head_dim, sizes.intermediate_size):
        if engine.group_size is not None and (rows // degree) % engine.group_size:
            return f"{rows} / {degree} = {rows // degree} rows are no whole groups of {engine.group_size}"
    return None


def _baseline(profile: Profile, root: Path, name: str, number: int, version: BaselineVersion, batch: int) -> Engine:
    sequences = batch if version.batching else 1
    return Engine(
        model=name,
        version=number,
        architecture=architecture_of(profile.model, root / version.model, version.model),
        dtype=version.dtype,
        group_size=None,
        draft=None,
        kv_element_bytes=DTYPE_BYTES[version.dtype],
        block_tokens=None,
        max_model_len=version.max_model_len,
        sequences=sequences,
        batched_tokens=sequences * version.max_model_len,
        eager=True,
        attention=version.attention,
        share=None,
        share_is_default=False,
        kv_space=None,
        tensor_parallel=1,
    )


def _vllm(profile: Profile, root: Path, name: str, number: int, variant: VllmVariant, accelerator: str) -> Engine:
    arguments = variant.versions[number]
    where = f'"{name}" version {number}'
    awq = profile.artifacts.awq
    path = str(arguments["model"])  # the profile's own checks have seen to it
    group_size = awq.group_size if awq and path == awq.path else None
    dtype = _dtype(where, arguments, "float16" if group_size else profile.artifacts.bf16.dtype)
    length = _integer(where, arguments, "max_model_len", profile.model.context_length)
    sequences = _integer(where, arguments, "max_num_seqs", _DEFAULT_SEQUENCES)
    default_tokens = min(_DEFAULT_BATCHED_TOKENS, sequences * length)
    share, space = _cache_size(where, arguments, profile.environment_of(variant), accelerator)
    return Engine(
        model=name,
        version=number,
        architecture=architecture_of(profile.model, root / path, path, group_size),
        dtype=dtype,
        group_size=group_size,
        draft=_draft(profile, arguments),
        kv_element_bytes=_kv_element_bytes(where, arguments, dtype),
        block_tokens=_integer(
            where, arguments, "block_size", GPU_BLOCK_TOKENS if accelerator == "cuda" else CPU_BLOCK_TOKENS
        ),
        max_model_len=length,
        sequences=sequences,
        batched_tokens=_integer(where, arguments, "max_num_batched_tokens", default_tokens),
        eager=arguments.get("enforce_eager") is True,
        attention="paged",
        share=share,
        share_is_default="gpu_memory_utilization" not in arguments,
        kv_space=space,
        tensor_parallel=_integer(where, arguments, "tensor_parallel_size", 1),
    )


def _draft(profile: Profile, arguments: Mapping[str, JsonValue]) -> Draft | None:
    config, head = arguments.get("speculative_config"), profile.artifacts.draft
    if isinstance(config, dict) and head is not None and config.get("model") == head.path:
        return Draft(head.method, head.vocab_size)
    return None


def _cache_size(
    where: str, arguments: Mapping[str, JsonValue], environment: Mapping[str, str], accelerator: str
) -> tuple[float | None, int | None]:
    """(share of the device, bytes of the cache): one of them is None. In vLLM's order of precedence."""
    space = environment.get(_KV_SPACE, "")
    if accelerator == "cpu" and space:
        if not space.isdecimal():
            raise PlanningError(f'{where}: {_KV_SPACE} is "{space}": vLLM takes a whole number of GiB')
        return None, int(space) * GIB
    if arguments.get("kv_cache_memory_bytes") is not None:
        return None, _integer(where, arguments, "kv_cache_memory_bytes", 0)
    share = arguments.get("gpu_memory_utilization", _DEFAULT_SHARE)
    assert isinstance(share, int | float)  # the profile's own checks have seen to it
    return float(share), None


def _kv_element_bytes(where: str, arguments: Mapping[str, JsonValue], dtype: str) -> int:
    name = str(arguments.get("kv_cache_dtype", "auto"))
    if name == "auto":
        return DTYPE_BYTES[dtype]
    if name in DTYPE_BYTES:
        return DTYPE_BYTES[name]
    if name.startswith("fp8"):
        return 1
    raise PlanningError(f'{where}: "kv_cache_dtype" "{name}" is none this plan counts: auto, bfloat16, float16, fp8')


def _dtype(where: str, arguments: Mapping[str, JsonValue], default: str) -> str:
    name = str(arguments.get("dtype", "auto"))
    name = default if name == "auto" else _DTYPES.get(name, name)
    if name not in DTYPE_BYTES:
        raise PlanningError(f'{where}: "dtype" "{name}" is none of {", ".join(DTYPE_BYTES)}')
    return name


def _integer(where: str, arguments: Mapping[str, JsonValue], key: str, default: int) -> int:
    value = arguments.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlanningError(f'{where}: "{key}" is {value!r}: write a whole number, 1 or more')
    return value
